#!/bin/sh
# Prints what the files of a crawl hold: for each record file of its rounds the
# number of its rows and the SHA-256 of their canonical form; for each WARC file
# that of its records' lines; for the stores that of what they hold as text.
#
#   digest.sh CRAWL
set -eu
: "${BIN:=}"
cd "$1"
sum() {
  if command -v sha256sum > /dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}
for f in $(find rounds -name '*.arrows.zst' | LC_ALL=C sort); do
  echo "$("${BIN}mcat" --canonical "$f" | sum) $f $("${BIN}mcat" --count "$f")"
done
for f in $(find fetch -name '*.warc.gz*' | LC_ALL=C sort); do
  echo "$("${BIN}mcat" "$f" | sed 's/"offset":[0-9]*,//' | sum) $f $("${BIN}mcat" --count "$f")"
done
echo "$("${BIN}murlset" dump urls | sum) murlset dump urls"
echo "$("${BIN}mfpset" dump content | sum) mfpset dump content"
echo "$("${BIN}mfrontier" export --text frontier | sum) mfrontier export --text frontier"
