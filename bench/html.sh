#!/bin/sh
# Links from HTML: extract.Find in memory beside x/net/html's tokenizer and
# tdewolff/parse's lexer, then mextract from WARC files, and from a fetch store, without and with what mfetch leaves, to link records.
#
#   bench/html.sh [DIR ...]
#
# Prints Markdown tables for the HTML files below each folder. In memory all run on one
# core, in turns, and the least processor time counts; mextract runs on two cores.
#
# Variables: RUNS of each [5]; GO, the go command [go]
set -eu
cd "$(dirname "$0")/.."
: "${RUNS:=5}" "${GO:=go}"
[ $# -gt 0 ] || set -- /usr/share/doc/python3.11 /usr/share/doc/postgresql-doc-15

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=0
"$GO" build -trimpath -o "$dir/" ./cmd/mextract
(cd bench/html && "$GO" build -mod=mod -trimpath -o "$dir/" .)
"$dir/html" -runs "$RUNS" -mextract "$dir/mextract" "$@"
