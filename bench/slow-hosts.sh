#!/bin/sh
# What slow hosts take from others: a good host with a chain of 12 and of 60 pages, each found on
# the one before, beside nothing, hosts with Crawl-delay: 20, hosts that never answer, one whose
# robots.txt hangs. Prints requests to the good host, seconds, and the share of what the default
# politeness allows (a page a second). Fails below 95 %, less three times what the same chain loses
# beside nothing at the same time. Two cases run at a time, some four minutes.
#
#   bench/slow-hosts.sh
set -eu
cd "$(dirname "$0")/.."
out=$(MERCATOR_BIN=${BIN:-$PWD/bin/} MERCATOR_LONG=1 go test -count=1 -v -timeout 60m -run '^TestSlowHosts$' ./pipelines) || { echo "$out" >&2; exit 1; }
echo "$out" | sed -n 's/.*_test.go:[0-9]*: //p'
