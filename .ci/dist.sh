#!/usr/bin/env bash
# Makes what is given away, in the folder dist: tarballs for Linux and macOS on amd64 and arm64, a .deb for each of
# the two on Linux, SHA256SUMS, an SBOM (CycloneDX) and the licences of all modules. The same commit gives the same bytes.
#
#   .ci/dist.sh [--check]       or: make dist, make dist-check
#
# With --check it makes what is for this machine twice and compares, installs the .deb of this machine, crawls with it, and removes it
# (needs root). PLATFORMS="linux/amd64 linux/arm64" makes fewer. Needs git, GNU tar, and dpkg-deb for the .deb; the SBOM's tool comes through the Go module proxy.
set -euo pipefail
cd "$(dirname "$0")/.."
commands=$(sed -n 's/^COMMANDS := //p' Makefile)
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 TZ=UTC LC_ALL=C GOFLAGS=-trimpath
umask 022
tag=$(git describe --tags --exact-match 2> /dev/null || true)
version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' pkg/base/release/release.go)
case $tag in
  "v$version") ;;
  '') version=$version~$(git log -1 --format=%cd --date=format:%Y%m%d).$(git rev-parse --short=10 HEAD) ;; # before that release
  *) echo "dist.sh: the tag is $tag, and pkg/base/release says $version" >&2; exit 1 ;;
esac
[ -z "$(git status --porcelain)" ] || version=$version+changes
case ${1:-} in '' | --check) ;; *) echo "dist.sh: $1: want --check or nothing" >&2; exit 2 ;; esac

# tree FOLDER OS ARCH: what a package holds, below usr; licences are those of the modules that the commands are made of.
tree() {
  mkdir -p "$1/lib/mercator/bin" "$1/share/doc/mercator"
  local packages=() c
  for c in $commands; do packages+=("./cmd/$c"); done
  GOOS=$2 GOARCH=$3 go build -buildvcs=true -ldflags='-s -w' -o "$1/lib/mercator/bin/" ./cmd/mcrawl ./cmd/mfrontier
  make --no-print-directory links LINKS="$1/lib/mercator/bin"
  cp README.md "$1/share/doc/mercator/"
  GOOS=$2 GOARCH=$3 go list -deps -f '{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "${packages[@]}" | sort -u |
    while read -r path of dir; do
      printf '%s %s\n' "$path" "$of" >> "$1/share/doc/mercator/modules.txt"
      printf '\n==== %s %s\n\n' "$path" "$of"
      # The licence of a module that has no such file stands in its README; FreeType's are in a folder.
      (
        cd "$dir"
        texts=$(find . -maxdepth 2 -type f \( -iregex '\./\(licen[cs]e\|copying\|notice\|unlicense\)[^/]*' -o -path './licenses/*' \))
        [ -n "$texts" ] || texts=$(find . -maxdepth 1 -type f -name 'README*')
        sort <<< "$texts" | tr '\n' '\0' | xargs -0 cat
      )
    done > "$1/share/doc/mercator/licences.txt"
  { printf '\n==== uPlot\n\n'; cat pkg/view/report/uplot/LICENSE; printf '\n==== Go %s\n\n' "$(go env GOVERSION)"; cat "$(go env GOROOT)/LICENSE"; } >> "$1/share/doc/mercator/licences.txt"
  chmod -R u+w,go-w "$1"
}

# pack FILE FOLDER NAME: FOLDER as a tarball whose files are below NAME.
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=posix --pax-option=delete=atime,delete=ctime \
    --transform="s,^\.,$3," -C "$2" -cf - . | gzip -n9 > "$1"
}

# make_all FOLDER OS/ARCH...: everything for these platforms, into FOLDER.
make_all() {
  local out=$1 work os arch platform
  shift
  work=$(mktemp -d)
  mkdir -p "$out"
  nice make --no-print-directory man > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  for platform; do
    os=${platform%/*} arch=${platform#*/}
    local name=mercator-$version-$os-$arch usr=$work/$os-$arch/usr
    tree "$usr" $os $arch
    make --no-print-directory install-shared DESTDIR="$work/$os-$arch" PREFIX=/usr > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    mkdir "$work/$name"
    cp -a "$usr/lib/mercator/bin" "$usr/share" "$work/$name/"
    pack "$out/$name.tar.gz" "$work/$name" "$name"
    [ $os = darwin ] || ! command -v dpkg-deb > /dev/null || deb "$work/$os-$arch" $arch "$out"
    rm -rf "${work:?}/$name" "$work/$os-$arch"
  done
  go run "$sbom" mod -licenses -json -noserial -notimestamp -type application -output "$out/mercator-$version.cdx.json" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  (cd "$out" && sha256sum -- mercator* > SHA256SUMS)
  rm -rf "$work"
}

# deb FOLDER ARCH OUT: a Debian package. mtools has /usr/bin/mcat, so the toolkit's is /usr/bin/mercator-mcat there;
# in /usr/lib/mercator/bin all have the names of the manual, and find each other.
deb() {
  mkdir -p "$1/usr/bin" "$1/DEBIAN"
  local c
  for c in $commands; do
    [ "$c" != mcat ] || c=mercator-mcat
    ln -s "../lib/mercator/bin/${c#mercator-}" "$1/usr/bin/$c"
  done
  gzip -n9 "$1"/usr/share/man/man?/*
  mv "$1/usr/share/man/man1/mcat.1.gz" "$1/usr/share/man/man1/mercator-mcat.1.gz"
  # Completion of mcat is mtools'; the toolkit's has the other name.
  mv "$1/usr/share/bash-completion/completions/mcat" "$1/usr/share/bash-completion/completions/mercator-mcat"
  mv "$1/usr/share/fish/vendor_completions.d/mcat.fish" "$1/usr/share/fish/vendor_completions.d/mercator-mcat.fish"
  sed -i 's/\bmcat\b/mercator-mcat/' "$1"/usr/share/bash-completion/completions/* "$1"/usr/share/fish/vendor_completions.d/* "$1/usr/share/zsh/site-functions/_mercator"
  mv "$1/usr/share/doc/mercator/licences.txt" "$1/usr/share/doc/mercator/copyright"
  cat > "$1/DEBIAN/control" << END
Package: mercator
Version: $version
Architecture: $2
Maintainer: Mercator <mercator@localhost>
Section: web
Priority: optional
Installed-Size: $(du -sk "$1/usr" | cut -f1)
Suggests: rclone, rsync, wordnet-base
Description: batch web crawler made of Unix commands
 Mercator (Heydon and Najork 1999) as small tools: each reads a stream of
 records and writes one, all large state is sorted files on disk, and a crawl
 is a shell pipe over them. Start with "man mcrawl".
 .
 As mtools has /usr/bin/mcat, the toolkit's mcat is mercator-mcat.
 /usr/lib/mercator/bin has all commands by their own names.
END
  cat > "$1/DEBIAN/postinst" << 'END'
#!/bin/sh
set -e
[ "$1" != configure ] || echo 'mercator: its mcat is "mercator-mcat", since mtools has one; or put /usr/lib/mercator/bin into PATH'
END
  chmod 755 "$1/DEBIAN/postinst"
  find "$1" -print0 | xargs -0 touch -h -d "@$SOURCE_DATE_EPOCH"
  dpkg-deb --root-owner-group -Zxz --build "$1" "$3/mercator_${version}_$2.deb" > /dev/null
}

rm -rf dist
make_all dist ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
ls -l dist
[ "${1:-}" = --check ] || exit 0

bad() { echo "dist.sh: $*" >&2; exit 1; }
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
make_all "$again/dist" "linux/$(go env GOARCH)"
(cd dist && sha256sum --quiet -c "$again/dist/SHA256SUMS") || bad "two builds differ"
grep -q '"bomFormat": *"CycloneDX"' dist/*.cdx.json || bad "the SBOM is none"
tar -xzf dist/*-linux-"$(go env GOARCH)".tar.gz -C "$again" --strip-components=1 --wildcards '*/share/doc'
while read -r module _; do
  grep -qF "pkg:golang/$module" dist/*.cdx.json || bad "the SBOM lacks $module"
  [ -n "$(grep -A9 -F "==== $module " "$again/share/doc/mercator/licences.txt" | sed 1d | grep '[A-Za-z]\{4\}')" ] || bad "no licence of $module"
done < "$again/share/doc/mercator/modules.txt"

# The package: it installs, works and goes away.
! dpkg -s mercator > /dev/null 2>&1 || bad "a package mercator is installed here: remove it first"
trap 'rm -rf "$again"; dpkg -r mercator > /dev/null 2>&1 || true' EXIT
arch=$(dpkg --print-architecture)
package=dist/mercator_${version}_$arch.deb
dpkg -i "$package"
mcrawl --version
man -w mcrawl > /dev/null 2>&1 || [ -s /usr/share/man/man1/mcrawl.1.gz ] || bad "no manual page"
(cd "$again" && mcrawl -q try crawl --hosts 4 --pages 60 > /dev/null && mercator-mcat --format tsv --columns url crawl | grep -q http)
dpkg -r mercator
for c in $commands mercator-mcat; do ! [ -e "/usr/bin/$c" ] || [ "$(dpkg -S "/usr/bin/$c" 2> /dev/null)" ] || bad "/usr/bin/$c is left"; done
[ ! -e /usr/lib/mercator ] && [ ! -e /usr/share/mercator ] || bad "folders are left"
echo "dist.sh: two builds of the same bytes; the .deb was installed, crawled and was removed"
