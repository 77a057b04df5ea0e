#!/bin/sh
# A stage of a crawl in one line of awk: between mextract and murlset it takes out
# the links of some kinds, such as pictures and scripts.
#
#   mextract --warc crawl/fetch --txn r1 marked.arrows.zst |
#     stage-awk.sh img script | murlset new crawl/urls --txn r1 -o new.arrows.zst
#
# Standard input and output are link records. "mcat --format tsv" makes of them a
# table with a line of names, awk takes lines out, and "mcat --from tsv" makes
# records again. Two things are to be copied for a stage of your own:
#
#   --stage NAME --like FILE  keep the ledger: rows that are missing now count as
#                             dropped by "kinds", and mckpt verify is content.
#   files between the steps   so that a step that dies ends this script. Down a
#                             pipe, the next step would take less for all there is.
set -eu
: "${BIN:=}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat > "$dir/in"
"${BIN}mcat" --format tsv "$dir/in" > "$dir/in.tsv"

awk -F '\t' -v kinds=" $* " '
  NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
  NR == 1 || !index(kinds, " " $column["link_kind"] " ")
' "$dir/in.tsv" > "$dir/out.tsv"

"${BIN}mcat" --from tsv --stage kinds --like "$dir/in" "$dir/out.tsv"
