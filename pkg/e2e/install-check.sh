#!/usr/bin/env bash
# Installs into a folder of its own, as packages do, and checks what people use of it: man finds a page for each command,
# verb and format, without a complaint of mandoc's, and bash, zsh and fish complete verbs, flags, settings,
# policies and columns. Then uninstalls, and nothing is left. Needs mandoc, zsh, fish.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
share=$dir/usr/share
bad() { echo "install-check.sh: $*" >&2; exit 1; }

# Files of others: an mcat that is not ours is not overwritten, and uninstall leaves what install did not put there.
mkdir -p "$dir/usr/bin" "$share/man/man1" "$share/mercator"
printf '#!/bin/sh\necho "mcat (GNU mtools) 4.0.43"\n' > "$dir/usr/bin/mcat"
chmod +x "$dir/usr/bin/mcat"
! make --no-print-directory install DESTDIR="$dir" PREFIX=/usr > "$dir/log" 2>&1 || bad "install overwrote another mcat"
grep -q "^install: $dir/usr/bin/mcat: another program's" "$dir/log" || { cat "$dir/log"; bad "install does not say that mcat is another's"; }
[ "$(find "$dir/usr" -type f)" = "$dir/usr/bin/mcat" ] || bad "a refused install left files"
rm "$dir/usr/bin/mcat"
others="$share/man/man1/mweb-foreign.1 $share/mercator/mine"
for f in $others; do echo '.TH FOREIGN 1' > "$f"; done
for i in 1 2; do make --no-print-directory install DESTDIR="$dir" PREFIX=/usr > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }; done
for f in $others; do mv "$f" "$dir/${f##*/}"; done
export PATH=$dir/usr/bin:$PATH
[ -x "$share/mercator/pipelines/google98.sh" ] && [ ! -e "$share/mercator/pipelines/soak.sh" ] || bad "share/mercator/pipelines is not what people use"

links=0
while IFS= read -r page; do
  while IFS= read -r to; do
    [ -e "${page%/*}/$to" ] || bad "$page: a link to $to, which is not installed"
    links=$((links + 1))
  done < <(grep -o ']([^)#[:space:]][^)#[:space:]]*' "$page" | sed 's/^](//' | grep -vE '^[a-z]+:' || :)
done < <(find "$share/mercator" -name '*.md')
[ "$links" -gt 100 ] || bad "$links links of pages"

mandoc -T lint -W warning "$share"/man/man?/* || bad "mandoc complains of a page"
for command in "$dir"/usr/bin/*; do
  name=${command##*/}
  [ -s "$share/man/man1/$name.1" ] || bad "$name has no page"
  for verb in $("$command" --help | awk '/^Commands:/ { on = 1; next } /^[^ ]/ { on = 0 } on && /^  [a-z]/ { print $1 }'); do
    page=$share/man/man1/$name-$verb.1
    [ -s "$page" ] || bad "$name $verb has no page"
    text=$(mandoc -T utf8 "$page" | col -b)
    for flag in $("$command" "$verb" --help | sed -n 's/^ *\(-., \)\{0,1\}--\([a-z-]*\).*/\2/p'); do
      [ "$flag" = help ] || grep -q -e "--$flag" <<< "$text" || bad "the page of $name $verb lacks --$flag"
    done
  done
done
for format in crawl.toml mercator-record mercator-store; do [ -s "$share/man/man5/$format.5" ] || bad "$format has no page"; done

# LINE -> a word that must be offered
cases='mcrawl se|set
mcrawl set crawl fetch.con|fetch.contact=
mcrawl set crawl frontier.policy=o|opic
mcrawl new --set sets.mode=|online
mckpt init --policy |revisit
mcat --columns url,sta|url,status
mfetch fetch --robots-engine |rfc9309
mfrontier next --per-|--per-host'
tries=0
while IFS='|' read -r line want; do
  found=$(bash -c '. "$0"; compopt() { :; }; COMP_LINE=$1 COMP_POINT=${#1}; _mercator "${1%% *}"; printf "%s\n" "${COMPREPLY[@]}"' \
    "$share/bash-completion/completions/${line%% *}" "$line")
  grep -qxF -e "$want" <<< "$found" || bad "bash completes '$line' to: $found"
  found=$(fish -c 'source $argv[1]; complete -C $argv[2]' "$share/fish/vendor_completions.d/${line%% *}.fish" "$line")
  grep -qE -e "(^|=)$want(\$|[[:space:]])" <<< "$found" || bad "fish completes '$line' to: $found"
  found=$(FPATH_OWN="$share/zsh/site-functions" LINE=$line zsh -f "$PWD/pkg/e2e/install-check.zsh")
  grep -qF -e "$want" <<< "$found" || bad "zsh completes '$line' to: $found"
  tries=$((tries + 1))
done <<< "$cases"

for f in $others; do mv "$dir/${f##*/}" "$f"; done
pages=$(($(ls "$share"/man/man?/* | wc -l) - 1))
make --no-print-directory uninstall DESTDIR="$dir" PREFIX=/usr > "$dir/log" 2>&1
left=$(find "$dir/usr" -type f | sort)
[ "$left" = "$(printf '%s\n' $others | sort)" ] || bad "uninstall left: $left"
echo "install-check.sh: $pages pages; $links links; $tries lines completed by bash, fish and zsh; uninstalled"
