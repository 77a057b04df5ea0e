package warc

import "strings"

// Rows name the file alone, so in a crawl of several shards its name says which.
const namePrefix, nameShard, shardDigits = "crawl-", "s", 3

// NamePrefix begins the names of the files of a crawl, or of its shard, such as "007".
func NamePrefix(shard string) string {
	if shard == "" {
		return namePrefix
	}
	return namePrefix + nameShard + shard + "-"
}

// NameShard is the shard that a file is of, by its name; "" for a file of a crawl without shards, and for any other name.
func NameShard(name string) string {
	rest, ok := strings.CutPrefix(name, namePrefix+nameShard)
	if !ok || len(rest) <= shardDigits || rest[shardDigits] != '-' || strings.Trim(rest[:shardDigits], "0123456789") != "" {
		return ""
	}
	return rest[:shardDigits]
}
