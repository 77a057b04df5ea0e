package warc

import "strings"

// A WARC file of a crawl is called PREFIX-GGGGGG-K.SUFFIX, and of a shard PREFIX-sNNN-GGGGGG-K.SUFFIX, since rows name the file alone. The
// prefix is a setting; generation and serial number are the store's.
const shardMark, shardDigits, generationDigits = "s", 3, 6

// DefaultPrefix begins the names of the files of a crawl that does not set another.
const DefaultPrefix = "crawl"

// PrefixMax is how many bytes a prefix has at most.
const PrefixMax = 64

// NamePrefix is what stands before the numbers in the names of the files of a crawl, or of its shard, such as "007".
func NamePrefix(prefix, shard string) string {
	if shard == "" {
		return prefix + "-"
	}
	return prefix + "-" + shardMark + shard + "-"
}

// ParseName takes a file's name apart. Shard is "" for a file of a crawl without shards, and both are for a name of another form.
func ParseName(name string) (prefix, shard string) {
	rest, last := cutLast(name)
	serial, _, suffixed := strings.Cut(last, ".")
	rest, generation := cutLast(rest)
	if !suffixed || !isNumber(serial, 1) || !isNumber(generation, generationDigits) || strings.Contains(rest, "/") {
		return "", ""
	}
	prefix, mark := cutLast(rest)
	if number, marked := strings.CutPrefix(mark, shardMark); prefix != "" && marked && len(number) == shardDigits && isNumber(number, shardDigits) {
		return prefix, number
	}
	return rest, ""
}

// IsPrefix reports whether names can begin so: ParseName finds it again.
func IsPrefix(prefix string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	parsed, _ := ParseName(NamePrefix(prefix, "") + "000001-0.warc")
	return prefix != "" && len(prefix) <= PrefixMax && strings.Contains(letters, prefix[:1]) && strings.Trim(prefix, letters+".-") == "" && !strings.Contains(prefix, "..") && parsed == prefix
}

// cutLast splits a name at its last '-'; before is "" if there is none.
func cutLast(name string) (before, after string) {
	i := strings.LastIndexByte(name, '-')
	return name[:max(i, 0)], name[i+1:]
}

func isNumber(s string, digits int) bool {
	return len(s) >= digits && strings.Trim(s, "0123456789") == ""
}
