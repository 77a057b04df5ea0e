#!/bin/sh
# Makes what "make install" installs beside the commands: manual pages (sections 1 and 5) of --help, manual.md and the
# SPEC.md of each format, and completion for bash, zsh and fish.
#
#   manuals.sh BIN OUT COMMAND...    the commands in the folder BIN; everything in the folder OUT is made anew
#
# Run it at the top of the source. go-md2man, a tool of go.mod, makes roff of Markdown.
set -eu
export LC_ALL=C # widths of tables are counted alike by each awk
bin=$1 out=$2; shift 2
date=$(git log -1 --format=%cs 2> /dev/null || date -u -r go.mod +%F)
rm -rf "$out"
mkdir -p "$out/man1" "$out/man5" "$out/completion"
for command; do "$bin/$command" --manuals "$out/man1"; done

# spec FILE NAME: the page of a format. Its first line is "# title"; links name the page of their target.
spec() {
  title=$(sed -n '1s/^# //p' "$1" | tr -d '`')
  { printf '%% %s 5 "" "Mercator" "File Formats"\n\n# NAME\n\n%s - %s\n\n# DESCRIPTION\n' "$(echo "$2" | tr a-z A-Z)" "$2" "$title"
    sed -e 1d -e '/^<!--.*-->$/d' -e '/^    /b' -e 's,\[\([^]]*\)\](\(https*://[^) ]*\)),\1 (\2),g' \
      -e 's,\[\([^]]*\)\]([^) ]*config/SPEC\.md[^) ]*),\1 (**crawl.toml**(5)),g' -e 's,\[\([^]]*\)\]([^) ]*/\([a-z]*\)/SPEC\.md[^) ]*),\1 (**mercator-\2**(5)),g' \
      -e 's/\[\([^]]*\)\]([^) ]*)/\1/g' "$1"; } > "$out/man5/$2.5.md"
}
for file in formats/*/SPEC.md pkg/*/SPEC.md pkg/*/*/SPEC.md; do
  name=${file%/SPEC.md}; name=mercator-${name##*/}
  [ "$name" != mercator-config ] || name=crawl.toml
  spec "$file" "$name"
done

grep -oh '\*\*mercator-[a-z]*\*\*(5)' "$out"/man?/*.md | tr -d '*' | sort -u | while read -r page; do
  [ -e "$out/man5/${page%(5)}.5.md" ] || { echo "$0: a link leads to $page, which is not made" >&2; exit 1; }
done
go build -o "$out/md2man" github.com/cpuguy83/go-md2man/v2
for page in "$out"/man?/*.md; do
  sed -i.old "1s/ \"\" / \"$date\" /" "$page"
  "$out/md2man" -in "$page" -out "$page.old"
  awk -f cmd/manuals.awk "$page.old" > "${page%.md}"
  rm "$page" "$page.old"
done
rm "$out/md2man"

for shell in bash zsh fish; do sed "s/COMMANDS/$*/" pkg/cli/completion/mercator.$shell > "$out/completion/mercator.$shell"; done
