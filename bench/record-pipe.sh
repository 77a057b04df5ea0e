#!/usr/bin/env bash
# How fast url records go through a pipe, with row work at both ends, as a ratio to encoding/json in the same run.
#
#   bench/record-pipe.sh            five runs of each in turn, medians
#   COUNT=11 bench/record-pipe.sh
#
# Each row is written at one end and read at the other, by BenchmarkPipe of formats/record (Linux). Prints rows/s of
# both and the ratio, with the machine's load; the exit status is 1 if the ratio is below RATIO (4).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
load=$(cut -d ' ' -f 1 /proc/loadavg)
go test -c -o "$dir/record.test" ./formats/record
for _ in $(seq "${COUNT:-5}"); do # a pair at a time, so that both meet the same load
	(cd formats/record && "$dir/record.test" -test.run '^$' -test.bench '^BenchmarkPipe$' -test.benchtime "${TIME:-1s}") >> "$dir/out"
done
awk -v load="$load" -v want="${RATIO:-4}" '
	$1 ~ /^BenchmarkPipe\// { split($1, n, "[/-]"); ns[n[2], ++runs[n[2]]] = $3 }
	function median(name,  i, j, t, k) { # sorts the runs
		k = runs[name]
		for (i = 1; i <= k; i++) for (j = i + 1; j <= k; j++) if (ns[name, j] < ns[name, i]) { t = ns[name, i]; ns[name, i] = ns[name, j]; ns[name, j] = t }
		return ns[name, int((k + 1) / 2)]
	}
	END {
		if (!runs["Record"] || !runs["JSON"]) { print "record-pipe.sh: the benchmark did not run"; exit 1 }
		record = median("Record"); json = median("JSON"); ratio = json / record
		printf "| rows/s | best | ratio of medians | load average at the start |\n|---|--:|--:|--:|\n"
		printf "| record: %.2f M | %.2f M | %.1f | %s |\n", 1e3 / record, 1e3 / ns["Record", 1], ratio, load
		printf "| encoding/json: %.2f M | %.2f M | | |\n", 1e3 / json, 1e3 / ns["JSON", 1]
		if (ratio < want) { printf "below %s\n", want; exit 1 }
	}' "$dir/out"
