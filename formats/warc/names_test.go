package warc

import "testing"

func TestNames(t *testing.T) {
	for name, want := range map[string]string{NamePrefix("007") + "000001.warc.gz": "007", NamePrefix("") + "000001.warc.gz": "", "crawl-s07-1.warc": "", "crawl-s00x-1": "", "crawl-s007": "", "s007-": "", "../crawl-s007-1": ""} {
		t.Run(name, func(t *testing.T) {
			if got := NameShard(name); got != want {
				t.Errorf("%s: shard %q, want %q", name, got, want)
			}
		})
	}
}
