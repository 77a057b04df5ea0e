# Sourced by scripts that crawl mweb's web on loopback, with BIN set. $dir is a temporary folder, which goes when the script ends.
# serve_web FLAG… starts mweb with these flags; then $names is the address of its name server, and $port that of its web.
# shellcheck shell=bash disable=SC2034
dir=$(mktemp -d)
server=
stop() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

serve_web() {
	"${BIN}mweb" serve "$@" --dns 127.0.0.1:0 --ready "$dir/web.json" > /dev/null &
	server=$!
	until [ -s "$dir/web.json" ]; do
		kill -0 $server 2> /dev/null || { echo "${0##*/}: mweb did not start" >&2; exit 1; }
		sleep 0.1
	done
	names=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$dir/web.json")
	port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$dir/web.json")
}
