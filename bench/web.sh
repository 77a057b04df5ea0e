# Sourced by scripts that crawl mweb's web on loopback, with BIN set. $dir is a temporary folder, which goes when the script ends; so does the process $server.
# serve_web FLAG… starts mweb with these flags; then $names is the address of its name server ($dns, or one with a free port), and $port that of its web.
# measured FILE COMMAND… runs an exported function, for at most $limit seconds if that is set; FILE.time, FILE.io and FILE.seen get its figures.
# shellcheck shell=bash disable=SC2034
dir=$(mktemp -d)
server=
crawling=
stop() {
	[ -z "$crawling" ] || ps -o pid= -s "$crawling" | xargs -r kill -9 2> /dev/null || true
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2> /dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

serve_web() {
	"${BIN}mweb" serve "$@" --dns "${dns:-127.0.0.1:0}" --ready "$dir/web.json" > /dev/null &
	server=$!
	until [ -s "$dir/web.json" ]; do
		kill -0 $server 2> /dev/null || { echo "${0##*/}: mweb did not start" >&2; exit 1; }
		sleep 0.1
	done
	names=$(sed 's/.*"dns":"\([^"]*\)".*/\1/' "$dir/web.json")
	port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$dir/web.json")
}

# measured returns the command's status, or 124 if time was up. FILE.time has seconds, and seconds of processor time (user, system), of all its
# processes; FILE.io bytes that they read and wrote; FILE.seen, twice a second, how many there are and KiB of resident memory (what they share counts for each);
# FILE.out what they printed.
measured() {
	local file=$1 began=$SECONDS status=0 over
	shift
	# shellcheck disable=SC2016
	setsid bash -euo pipefail -c '
		trap : TERM
		TIMEFORMAT="%R %U %S"
		file=$1; shift
		set +e # on the left of || the function would not end at what fails
		apart() { (set -e; "$@") > "$file.out" 2>&1; }
		time apart "$@" # a subshell itself would have the line of time in its output
		status=$?
		set -e
		while read -r key value; do case $key in rchar: | wchar:) echo "$value" ;; esac; done < /proc/$$/io
		exit $status' _ "$file" "$@" > "$file.io" 2> "$file.time" &
	crawling=$!
	while kill -0 $crawling 2> /dev/null; do
		ps -o rss= -s $crawling | awk '{ rss += $1; n++ } END { print n + 0, rss + 0 }' >> "$file.seen"
		over=$((SECONDS - began - ${limit:-1000000}))
		if [ $over -ge 0 ]; then # all but the leader and the shell of the function, which add up their time
			status=124
			ps -o pid=,ppid= -s $crawling | awk -v leader=$crawling '$1 != leader && $2 != leader { print $1 }' | xargs -r kill $([ $over -lt 15 ] || echo -9) 2> /dev/null || true
		fi
		sleep 0.5
	done
	wait $crawling || [ $status = 124 ] || status=$?
	crawling=
	return $status
}
