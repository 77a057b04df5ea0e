# Sourced by scripts that need a name server: nsd_start FOLDER PORT has NSD serve FOLDER/zone as zone.test, at that
# port of loopback, and leaves its process in $nsd. It is ready when it answers; what it says is in FOLDER/nsd.log.
nsd_start() {
	cat > "$1/nsd.conf" <<-END
		server:
		  server-count: 1
		  ip-address: 127.0.0.1@$2
		  username: ""
		  zonesdir: "$1"
		  database: ""
		  pidfile: "$1/nsd.pid"
		  xfrdfile: "$1/xfrd"
		  zonelistfile: "$1/zonelist"
		  logfile: "$1/nsd.log"
		  rrl-ratelimit: 0
		remote-control:
		  control-enable: no
		zone:
		  name: zone.test
		  zonefile: zone
	END
	nsd -d -c "$1/nsd.conf" &
	nsd=$!
}
