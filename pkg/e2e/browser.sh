#!/usr/bin/env bash
# Holds the links of pages against those of Chromium without scripting, on pages of
# Debian's documentation and on pages made by hand; and the encodings of pages
# against html5lib's cases. Chromium contacts loopback alone.
#
#   pkg/e2e/browser.sh        or: make browser
#
# Needs chromium, the packages python3.11-doc postgresql-doc-15 apache2-doc
# libjsoncpp-doc junit4-doc libcairo2-doc r-doc-html, and python3 with pip and PyPI,
# from where html5lib's cases come.
set -euo pipefail
cd "$(dirname "$0")/../.."

CHROMIUM=${CHROMIUM:-chromium}
HTML5LIB=html5lib==1.1 # later ones ship no cases

command -v "$CHROMIUM" > /dev/null || { echo "browser.sh: no $CHROMIUM" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
echo 'setuptools<70' > "$work/constraints" # what it is built with reads its setup.py
PIP_CONSTRAINT="$work/constraints" "$work/venv/bin/pip" -q --disable-pip-version-check \
  download --no-deps --no-binary :all: -d "$work" "$HTML5LIB"
tar -xzf "$work"/html5lib-*.tar.gz -C "$work"

MERCATOR_CHROMIUM=$CHROMIUM MERCATOR_HTML5LIB=$(echo "$work"/html5lib-*/html5lib/tests/testdata) \
  "${GO:-go}" test -count=1 -v -run 'SameLinksAsChromium|HTML5Lib' ./pkg/extract
