package warc

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string][2]string{
		NamePrefix(DefaultPrefix, "") + "000001-0.warc.gz":                      {"crawl", ""},
		NamePrefix("docs-20261130T160938.123", "007") + "1000001-12000000.warc": {"docs-20261130T160938.123", "007"},
		"docs-20261130-000002-1.warc.zst":                                       {"docs-20261130", ""},
		"a-000001-2-000002-1.warc.gz":                                           {"a-000001-2", ""},
		"a-s007-s008-000002-1.warc.gz":                                          {"a-s007", "008"},
		"s007-000002-1.warc.gz":                                                 {"s007", ""},
		"crawl-s07-000002-1.warc":                                               {"crawl-s07", ""},
		"crawl-s00x-000002-1.warc":                                              {"crawl-s00x", ""},
		"-s007-000002-1.warc":                                                   {"-s007", ""},
		"crawl-s007-00002-1.warc":                                               {}, "crawl-s007-000002-.warc": {}, "crawl-s007-000002-1": {}, "../crawl-s007-000002-1.warc": {}, "000002-1.warc": {}, "s007-": {}, "": {},
	} {
		t.Run(name, func(t *testing.T) {
			if prefix, shard := ParseName(name); prefix != want[0] || shard != want[1] {
				t.Errorf("prefix %q, shard %q; want %q", prefix, shard, want)
			}
		})
	}
	for prefix, want := range map[string]bool{
		"crawl": true, "s007": true, "a-s07": true, "a-s0077": true, "docs-20261130T160938.123": true, "x-000001-2": true, "_": true, "a-": true, "A.b_c": true, strings.Repeat("x", PrefixMax): true,
		"": false, "-a": false, ".a": false, "a..b": false, "a/b": false, "a b": false, "ä": false, "a-s007": false, "crawl-s512": false, "a@b": false, strings.Repeat("x", PrefixMax+1): false,
	} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			if got := IsPrefix(prefix); got != want {
				t.Errorf("%q: %t", prefix, got)
			}
		})
	}
}
