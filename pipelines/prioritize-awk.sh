#!/bin/sh
# A prioritizer in one line of awk: URLs with a query go into front queue 2, those
# near a seed into queue 0, and the rest into queue 1. Their score is half of that
# of the page they were found on, and 1 more where they are near a seed.
#
#   mfrontier update crawl/frontier --prioritizer pipelines/prioritize-awk.sh …
#
# or, for a whole crawl, in crawl.toml:
#
#   [frontier]
#   prioritizer = "/usr/local/share/mercator/pipelines/prioritize-awk.sh"
#
# Standard input is a JSON object a line; each must be answered by a line "PRIORITY"
# or "PRIORITY SCORE" before the next is waited for. So nothing may wait in a buffer:
# fflush() sees to what awk writes, and mawk has to be told about what it reads.
set -eu
awk=awk
case $(awk -W version 2>&1 < /dev/null) in
mawk*) awk='mawk -W interactive' ;;
esac
# shellcheck disable=SC2086
exec $awk '
  { near = /"depth":[01],/; match($0, /"score":[0-9.e+-]+/); parent = substr($0, RSTART + 8, RLENGTH - 8) }
  { print (/"url":"[^"]*[?]/ ? 2 : near ? 0 : 1), parent / 2 + near; fflush() }'
