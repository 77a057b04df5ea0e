#!/usr/bin/env bash
# Rendering in Chromium: pages that scripts make, hostile pages, a browser that dies, and crawls of an application of Vue, which pywb
# replays, and, under kills, of React. Chromium has no network; the applications are on loopback.
#
#   pkg/e2e/render.sh                        or: make render
#   MERCATOR_LONG=1 pkg/e2e/render.sh        sites of 500 pages, of which 20 need scripts
#
# Needs chromium, npm, which takes the frameworks from its registry, and python3 with venv and pip, which takes pywb from PyPI (VENV= names a
# folder that has it).
set -euo pipefail
cd "$(dirname "$0")/../.."

VUE=vue@3.5.13 REACT=react@18.3.1 REACT_DOM=react-dom@18.3.1 # later ones of React have no build for browsers

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat_file() { tar -xzOf "$work/$(cd "$work" && npm pack --silent "$1")" "package/$2"; }
cat_file "$VUE" dist/vue.global.prod.js > "$work/vue.js"
{ cat_file "$REACT" umd/react.production.min.js; cat_file "$REACT_DOM" umd/react-dom.production.min.js; } > "$work/react.js"
if [ -z "${VENV:-}" ]; then
  VENV=$work/venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check pywb
fi

export MERCATOR_RENDER=1 MERCATOR_BIN=${MERCATOR_BIN:-$PWD/bin} MERCATOR_VUE=$work/vue.js MERCATOR_REACT=$work/react.js MERCATOR_WAYBACK=$VENV/bin/wayback
go test ./pkg/render/... -count=1 -timeout 10m
go test ./pkg/e2e -run '^TestRendered' -count=1 -timeout 30m
