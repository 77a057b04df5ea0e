#!/bin/sh
# Where the CPU time of a Go program went, in groups, from a profile made with --profile.
#
#   bench/profile-groups.sh cpu.pprof
#
# A sample belongs to the first group that any function of its stack matches, from the innermost outwards.
set -eu
go tool pprof -traces "$1" 2>/dev/null | awk '
	function close_sample() {
		if (value == "") return
		total += value
		for (i = 1; i <= depth; i++) for (g = 1; g <= groups; g++) if (stack[i] ~ pattern[g]) { sum[name[g]] += value; value = ""; return }
		sum["other"] += value; value = ""
	}
	function group(n, p) { name[++groups] = n; pattern[groups] = p }
	function ms(s) { return s ~ /ms$/ ? s + 0 : s ~ /us$/ ? s / 1000 : s ~ /s$/ ? s * 1000 : s + 0 }
	BEGIN {
		group("system calls", "^(internal/runtime/syscall|syscall)\\.(Raw)?Syscall|runtime\\.(futex|epoll|write1|usleep|madvise|nanotime)|vdso")
		group("gzip", "compress/(flate|gzip)\\.")
		group("zstd", "compress/zstd\\.")
		group("SHA-1", "sha1")
		group("CRC and xxh", "crc32|xxh")
		group("FP64", "mercator/pkg/base/fingerprint\\.")
		group("garbage collector", "runtime\\.(gcBgMarkWorker|gcDrain|scanobject|gcAssist|bgsweep|sweepone|bgscavenge|gcStart|greyobject)")
		group("memory: allocate, clear, copy", "runtime\\.(mallocgc|memclr|memmove|growslice|newobject)")
		group("scheduler", "runtime\\.(schedule|findRunnable|mcall|park_m|goready|ready|wakep|stealWork|lock2|unlock2|netpoll|sysmon|mstart|systemstack)")
		group("records, Arrow", "mercator/formats/record\\.|apache/arrow")
		group("WARC", "mercator/formats/warc\\.")
		group("URLs", "mercator/pkg/(canon|filter)|whatwg-url")
		group("HTML", "golang.org/x/net/html|mercator/pkg/extract\\.\\(\\*(finder|element)")
		group("HTTP", "mercator/pkg/(fetch/http1|httpmsg|rewind)")
		group("rest of the command", "mercator/")
	}
	/^-+\+-+$/ { close_sample(); depth = 0; inside = 1; next }
	!inside { next }
	depth == 0 && $1 ~ /^[0-9.]+(ms|us|s)$/ { value = ms($1); stack[++depth] = $2; next }
	value != "" { stack[++depth] = $1 }
	END {
		close_sample()
		for (s in sum) printf "%5.1f %%  %s\n", 100 * sum[s] / total, s | "sort -rn"
	}'
