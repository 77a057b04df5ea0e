package fetch_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mercator/formats/record"
	runfile "mercator/formats/run"
	"mercator/formats/store"
	"mercator/formats/warc"
	"mercator/pkg/base/must"
	"mercator/pkg/fetch"
	"mercator/pkg/view/derive"
	"mercator/pkg/web/httpmsg"
)

// init has the encoder of runs make its channels outside of any bubble of synctest: it
// serves tests inside and outside.
func init() {
	w := runfile.NewWriter(io.Discard, "warm")
	if err := errors.Join(w.Add(0, []byte(strings.Repeat("http://h0.test/", 100))), w.Close()); err != nil {
		panic(err)
	}
}

// TestDedup: a payload is archived once, and other replies with it as revisit
// records that lead to it: in one round, in a later one, and in one that was killed
// and taken up. Rows and replay are as without.
func TestDedup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const same = "one text for many pages"
		w := &web{replies: map[string]string{
			"http://h0.test/404": "HTTP/1.1 404 Not Found\r\nContent-Length: 23\r\n\r\n" + same,
			"http://h0.test/cut": "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n" + same,
			"http://h0.test/nil": page(""), "http://h0.test/nil2": page(""),
			"http://h0.test/chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n17\r\n" + same + "\r\n0\r\n\r\n",
		}}
		for _, path := range []string{"a", "b", "later", "last"} {
			w.replies["http://h0.test/"+path] = page(same)
		}
		urls := func(paths ...string) (list []record.URL) {
			for _, p := range paths {
				list = append(list, url("http://h0.test/"+p))
			}
			return list
		}
		opt := options(newStore(t), w)
		opt.Dedup, opt.Digests, opt.MinDelay, opt.MaxDelay, opt.WARCSize = true, true, time.Second, time.Second, 4<<10
		first := urls("a", "b", "404", "cut", "nil", "nil2", "chunks", "other")
		rows := run(t, opt, "r1", first)
		sameAgain(t, opt.Store, first, rows)
		revisits := map[string]string{}
		look := func(rows []record.Fetch) {
			for i := range rows {
				if rows[i].Role == record.RolePage {
					revisits[strings.TrimPrefix(rows[i].URL, "http://h0.test/")] = original(t, opt.Store, &rows[i], same)
				}
			}
		}
		look(rows)
		second := run(t, opt, "r2", urls("later", "other2"))
		look(second)
		batch := append(urls("last"), pages(1, 6)...)
		interrupted(t, opt, "r3", batch)
		third := run(t, opt, "r3", batch)
		look(third)
		sameIndex(t, opt.Store, rows, second, third)
		for path, want := range map[string]string{
			"a": "", "b": "http://h0.test/a", "404": "http://h0.test/a", "chunks": "http://h0.test/a", "later": "http://h0.test/a", "last": "http://h0.test/a",
			"cut": "", "nil": "", "nil2": "", "other": "", "other2": "",
		} {
			if got, there := revisits[path]; got != want || !there {
				t.Errorf("%s refers to %q, want %q", path, got, want)
			}
		}
		checkWARC(t, opt)
	})
}

// original returns the URL that the record of a row refers to, "" if it is a
// response, and checks that the payload is there.
func original(t *testing.T, st *store.Store, row *record.Fetch, payload string) string {
	t.Helper()
	read := func(file string, offset int64) (rec warc.Record, body string) {
		f, err := st.OpenFile(file)
		must.OK(t, err)
		defer f.Close()
		r0, r, err := warc.OpenAt(f, offset, 0, warc.ReaderOptions{})
		must.OK(t, err)
		defer r.Close()
		rec = *r0
		rec.Fields = slices.Clone(r0.Fields)
		m, err := httpmsg.Open(r0.Block)
		must.OK(t, err)
		b, _ := io.ReadAll(m.Payload) // a revisit has none
		return rec, string(b)
	}
	rec, body := read(row.WARCFilename, row.WARCOffset)
	file, offset, refers := rec.Original()
	if !refers {
		if rec.Type != warc.TypeResponse {
			t.Errorf("%s is a %s record", row.URL, rec.Type)
		}
		return ""
	}
	first, whole := read(file, offset)
	if body != "" || whole != payload || first.TargetURI != rec.Get(warc.FieldRefersToTargetURI) || warc.FormatDate(first.Date) != rec.Get(warc.FieldRefersToDate) ||
		first.Get(warc.FieldPayloadDigest) != rec.Get(warc.FieldPayloadDigest) || rec.Get(warc.FieldProfile) != warc.ProfileIdenticalPayload {
		t.Errorf("%s: record %+v with %q refers to %+v with %q", row.URL, rec, body, first, whole)
	}
	return first.TargetURI
}

// checkWARC reads all files of a store: blocks and payloads have their digests,
// only the newest file grows, each other one is full, and all index lines come.
func checkWARC(t *testing.T, opt fetch.Options) {
	t.Helper()
	parts, err := fetch.Saved([]string{opt.Store.Dir()}, store.Options{})
	if err != nil || len(parts) < 2 {
		t.Fatalf("WARC files %v, %v; want several", parts, err)
	}
	growing, revisits := 0, 0
	for _, part := range parts {
		if strings.HasSuffix(part.Path, ".open") {
			growing++
		}
		for _, index := range []bool{false, true} {
			f, length, err := part.Open()
			must.OK(t, err)
			r := warc.NewReader(io.LimitReader(f, length), warc.ReaderOptions{Name: part.Path, Verify: true})
			for {
				rec, err := r.Next()
				if err == io.EOF {
					break
				}
				must.OK(t, err)
				if rec.Get(warc.FieldBlockDigest) == "" {
					t.Errorf("%s: a %s record without block digest", part.Path, rec.Type)
				}
				if index {
					line, err := derive.AppendCDXJ(nil, r, rec, part.Path)
					must.OK(t, err)
					if strings.Contains(string(line), `"mime":"warc/revisit"`) && strings.Contains(string(line), `"digest":"`) {
						revisits++
					}
					continue
				}
				if err := r.CheckPayload(); err != nil {
					t.Error(err)
				}
			}
			r.Close()
			f.Close()
			if length > opt.WARCSize {
				t.Errorf("%s has %d bytes, want at most %d", part.Path, length, opt.WARCSize)
			}
		}
	}
	if growing != 1 || revisits != 5 {
		t.Errorf("%d of %d files grow, and %d revisit records are in the index; want 1 and 5", growing, len(parts), revisits)
	}
}

// TestDedupOfWhatWasCut damages each file that an interrupted round left, at many places: what
// refers to a payload that is gone is fetched again, and every revisit leads to a whole record.
func TestDedupOfWhatWasCut(t *testing.T) {
	for codec, places := range map[warc.Codec]int{warc.Gzip: 3, warc.Zstd: 1} {
		t.Run(string(codec), func(t *testing.T) {
			payload := func(i int) string { return fmt.Sprintf("the text of group %d", i%9) }
			w := &web{replies: map[string]string{}}
			urls := pages(6, 16)
			text := map[string]string{}
			for i, u := range urls {
				text[u.URL] = payload(i)
				w.replies[u.URL] = page(payload(i))
			}
			set := func(st *store.Store) fetch.Options {
				opt := options(st, w)
				opt.Dedup, opt.Codec, opt.WARCSize, opt.Connections = true, codec, 20<<10, 1
				return opt
			}
			opt := set(newStore(t))
			before := run(t, opt, "r1", pages(3, 1)) // a committed part before
			interrupted(t, opt, "r2", urls)
			files := warcs(t, opt.Store)
			if len(files) < 3 {
				t.Fatalf("the interrupted round wrote %d files, want some that are complete", len(files))
			}
			m, err := opt.Store.Current()
			must.OK(t, err)
			for i, file := range files {
				whole, err := os.ReadFile(file)
				must.OK(t, err)
				from := 0
				if e := m.File(strings.TrimSuffix(filepath.Base(file), ".open")); e != nil {
					from = int(e.Length)
				}
				for k := range places {
					at := from + (len(whole)-from)*(2*k+1)/(2*places)
					for _, damage := range []string{"cut", "flip", "delete"} {
						b := whole[:at:at]
						if damage == "flip" {
							b = slices.Clone(whole)
							b[at] ^= 0x10
						}
						dir := filepath.Join(t.TempDir(), "fetch")
						copied := filepath.Join(dir, filepath.Base(file))
						err := os.CopyFS(dir, os.DirFS(opt.Store.Dir()))
						if damage != "delete" {
							err = errors.Join(err, os.WriteFile(copied, b, 0o644))
						} else if k > 0 || from > 0 || codec != warc.Gzip {
							continue
						} else {
							err = errors.Join(err, os.Remove(copied))
						}
						must.OK(t, err)
						again := set(open(t, dir))
						rows := run(t, again, "r2", urls)
						for u, o := range outcomes(t, rows, urls) {
							if o != record.OutcomeFetched {
								t.Errorf("%s: %s", u, o)
							}
						}
						checkPlaces(t, again.Store, rows)
						sameIndex(t, again.Store, before, rows)
						for j := range rows {
							if rows[j].Role == record.RolePage {
								original(t, again.Store, &rows[j], text[rows[j].URL])
							}
						}
						if t.Failed() {
							t.Fatalf("file %d of %d, %s at byte %d of %d", i, len(files), damage, at, len(whole))
						}
					}
				}
			}
		})
	}
}
