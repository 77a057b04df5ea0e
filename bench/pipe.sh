# shellcheck shell=sh
# Sourced by benchmarks: the crawl $CRAWL as one pipe a round, where each command gets flags of its own: NEXT_FLAGS,
# RESOLVE_FLAGS and so on, which are lists of words. A crawl of yours has settings, and is run by mcrawl.

# shellcheck disable=SC2086
begin() { # makes the crawl and puts $SEEDS in
	"${BIN}mckpt" init --quiet "$CRAWL" &&
		"${BIN}murlset" new --quiet "$CRAWL/urls" --txn seed --text $SEEDS | "${BIN}mfrontier" add --quiet "$CRAWL/frontier" --txn seed &&
		"${BIN}mckpt" commit --quiet "$CRAWL" --txn seed
}

# shellcheck disable=SC2086
round() { # NUMBER
	d=$CRAWL/rounds/r$1
	mkdir -p "$d" &&
		"${BIN}mfrontier" next "$CRAWL/frontier" --txn "r$1" ${BATCH:+-n "$BATCH"} ${POLITENESS_FLAGS:-} ${NEXT_FLAGS:-} |
		"${BIN}mresolve" "$CRAWL/dns" --txn "r$1" ${RESOLVE_FLAGS:-} |
			"${BIN}mfetch" "$CRAWL/fetch" --txn "r$1" ${POLITENESS_FLAGS:-} ${FETCH_FLAGS:-} |
			"${BIN}mfpset" mark "$CRAWL/content" --txn "r$1" --copy "$d/marked.arrows.zst" ${MARK_FLAGS:-} |
			"${BIN}mextract" --warc "$CRAWL/fetch" --txn "r$1" --copy "$d/links.arrows.zst" --refused "$d/refused.arrows.zst" ${EXTRACT_FLAGS:-} |
			"${BIN}murlset" new "$CRAWL/urls" --txn "r$1" ${NEW_FLAGS:-} |
			"${BIN}mfrontier" update "$CRAWL/frontier" --txn "r$1" ${UPDATE_FLAGS:-} --outcomes "$d/marked.arrows.zst" --links "$d/links.arrows.zst" &&
		"${BIN}mckpt" commit --quiet "$CRAWL" --txn "r$1" ${COMMIT_FLAGS:-}
}

rounds() { # LAST: rounds up to that; 0: to the crawl's end
	[ -e "$CRAWL/CURRENT" ] || begin || return
	next=$("${BIN}mckpt" show --next-round "$CRAWL") || return
	while [ "$1" -eq 0 ] || [ "$next" -le "$1" ]; do
		"${BIN}mfrontier" stat --empty "$CRAWL/frontier" && return
		[ $? = 6 ] && round "$next" || return
		next=$((next + 1))
	done
}
