package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mercator/formats/record"
	"mercator/formats/warc"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/fingerprint"
	"mercator/pkg/base/must"
)

// visit has what became of a URL in a round.
type visit struct {
	url     string
	outcome string
	status  uint16
	attempt uint8
	mime    string
	body    string
	last    string // the body before
	header  string // further fields, each with its end of line
}

func page(url, title, text string) visit {
	return visit{url: url, outcome: record.OutcomeFetched, status: 200, mime: "text/html", body: "<title>" + title + "</title><p>" + text}
}

func status(url string, status uint16) visit {
	return visit{url: url, outcome: record.OutcomeFetched, status: status, mime: "text/html", body: "<p>failure"}
}

// round writes the record file of a round, and the documents, into a crawl folder, of a shard for which under is "shards/000".
func round(t testing.TB, crawl, under, name string, at int, visits ...visit) File {
	t.Helper()
	dir := filepath.Join(crawl, under, "rounds", name)
	store := filepath.Join(crawl, under, "fetch")
	for _, d := range []string{dir, store} {
		must.OK(t, os.MkdirAll(d, 0o777))
	}
	path := filepath.Join(dir, "marked.arrows.zst")
	out, err := os.Create(path)
	must.OK(t, err)
	defer out.Close()
	w, err := record.NewWriter[record.Fetch](out, record.WriterOptions{Name: path})
	must.OK(t, err)
	var file []byte
	for i, v := range visits {
		row := record.Fetch{URL: v.url, Host: strings.Split(v.url, "/")[2], Role: record.RolePage, Outcome: v.outcome, Status: v.status, Attempt: v.attempt, MIME: v.mime,
			FetchTime: record.Time(at*1_000_000 + i)}
		row.Key = fingerprint.URLKey(row.Host, row.URL)
		if v.last != "" {
			row.LastContentFP = fingerprint.Of([]byte(v.last))
		}
		if v.status == 304 && v.header != "" {
			row.WARCFilename, row.WARCOffset = name+".warc", int64(len(file))
			reply := "HTTP/1.1 304 Not Modified\r\n" + v.header + "\r\n"
			rec := &warc.Record{Type: warc.TypeRevisit, Date: time.Unix(int64(at), 0), TargetURI: v.url, ContentType: warc.MediaResponse, Block: strings.NewReader(reply), Length: int64(len(reply))}
			rec.Add(warc.FieldProfile, warc.ProfileNotModified)
			file, err = (&warc.Encoder{Codec: warc.None}).Append(file, rec)
			must.OK(t, err)
			row.WARCLength = int64(len(file)) - row.WARCOffset
		}
		if v.body != "" {
			row.BodyLength, row.WARCFilename, row.WARCOffset, row.ContentFP = int64(len(v.body)), name+".warc", int64(len(file)), fingerprint.Of([]byte(v.body))
			reply := fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Type: %s\r\n%s\r\n%s", v.status, v.mime, v.header, v.body)
			file, err = (&warc.Encoder{Codec: warc.None}).Append(file, &warc.Record{Type: warc.TypeResponse, Date: time.Unix(int64(at), 0), TargetURI: v.url,
				ContentType: warc.MediaResponse, Block: strings.NewReader(reply), Length: int64(len(reply))})
			must.OK(t, err)
			row.WARCLength = int64(len(file)) - row.WARCOffset
		}
		must.OK(t, w.Write(&row))
	}
	_, err = w.Commit(record.Ledger{})
	must.OK(t, err, os.WriteFile(filepath.Join(store, name+".warc"), file, 0o666))
	return File{Path: path}
}

// upToDate brings a crawl's index up to date, which is closed again.
func upToDate(t testing.TB, crawl string, files ...File) Report {
	t.Helper()
	x, err := Open(t.Context(), filepath.Join(crawl, "search.db"), true, time.Second)
	must.OK(t, err)
	r, err := x.Update(t.Context(), files, Settings{Threads: 2})
	if err = errors.Join(err, x.Close()); err != nil {
		t.Fatal(err)
	}
	return r
}

// find is the URLs of the results, and of those with the same content.
func find(t testing.TB, crawl string, q Query) (urls []string, results []Result) {
	t.Helper()
	x, err := Open(t.Context(), filepath.Join(crawl, "search.db"), false, time.Second)
	must.OK(t, err)
	defer x.Close()
	q.Most, q.Also = max(q.Most, 10), 5
	results, total, err := x.Find(t.Context(), q)
	if err != nil || total != int64(len(results)) {
		t.Fatal(total, len(results), err)
	}
	for _, r := range results {
		urls = append(append(urls, r.URL), r.Also...)
	}
	return urls, results
}

// What becomes of pages from round to round.
func TestPagesComeAndLeave(t *testing.T) {
	crawl := t.TempDir()
	check := func(words string, want ...string) {
		t.Helper()
		if urls, _ := find(t, crawl, Query{Words: words}); !slices.Equal(urls, want) {
			t.Errorf("%s: %q, want %q", words, urls, want)
		}
	}
	const a, b, c, d = "http://h/a", "http://h/b", "http://h/c", "http://i:8080/d?x"
	files := []File{round(t, crawl, "", "r1", 1, page(a, "Vacation", "alpha beta"), page(b, "Other", "beta gamma alpha words more"), page(c, "Same", "delta"), page(d, "Same", "delta"),
		visit{url: "http://h/pic", outcome: record.OutcomeFetched, status: 200, mime: "image/png", body: "\x89PNG alpha"},
		visit{url: "http://h/deferred", outcome: record.OutcomeDeferred},
		visit{url: "http://h/plain", outcome: record.OutcomeFetched, status: 200, mime: "text/plain", body: "Résumé alphabet"})}
	if r := upToDate(t, crawl, files...); r != (Report{Files: 1, New: 6}) {
		t.Errorf("%+v", r)
	}
	check("alpha", a, b)
	check("ALPHA -gamma", a)
	check("alpha*", "http://h/plain", a, b)
	check("resume", "http://h/plain")
	check(`"beta gamma"`, b)
	check(`"gamma beta"`)
	check("delta", c, d) // one document
	check("vacation", a)
	if urls, results := find(t, crawl, Query{Words: "delta", Site: "i"}); !slices.Equal(urls, []string{d, c}) || results[0].Fetched.Unix() != 1 {
		t.Errorf("%q %+v", urls, results)
	}
	for _, site := range []string{"i:8080", "I"} {
		if urls, _ := find(t, crawl, Query{Words: "delta", Site: site}); len(urls) != 2 {
			t.Errorf("--site %s: %q", site, urls)
		}
	}
	for _, site := range []string{"j", "8080", "i:80"} {
		if urls, _ := find(t, crawl, Query{Words: "delta", Site: site}); len(urls) != 0 {
			t.Errorf("--site %s: %q", site, urls)
		}
	}
	// a changes, b is gone, of two URLs with one content one redirects; nothing is new about what failed and is tried again.
	files = append(files, round(t, crawl, "", "r2", 2, page(a, "Vacation", "epsilon"), status(b, 410), status(d, 301), status("http://h/plain", 503)))
	if r := upToDate(t, crawl, files...); r != (Report{Files: 1, Changed: 1, Gone: 2}) {
		t.Errorf("%+v", r)
	}
	check("alpha")
	check("gamma")
	check("epsilon", a)
	check("delta", c)
	check("resume", "http://h/plain")
	// The server says that b, which was gone, is as it was. What failed for the last time leaves, and so does what robots.txt forbids or settings refuse.
	failed := status("http://h/plain", 503)
	failed.attempt = 2
	files = append(files, round(t, crawl, "", "r3", 3, visit{url: b, outcome: record.OutcomeNotModified, status: 304}, visit{url: a, outcome: record.OutcomeNotModified, status: 304}, failed,
		visit{url: c, outcome: record.OutcomeRobotsDenied}))
	if r := upToDate(t, crawl, files...); r != (Report{Files: 1, New: 1, Same: 1, Gone: 2}) {
		t.Errorf("%+v", r)
	}
	check("gamma", b)
	check("delta")
	check("resume")
	// An index made anew counts each URL once, as it is in the end.
	must.OK(t, os.Remove(filepath.Join(crawl, "search.db")))
	if r := upToDate(t, crawl, files...); r != (Report{Files: 3, New: 3}) {
		t.Errorf("%+v", r)
	}
	check("gamma", b)
	// A content that was there before comes back at another URL, in a shard's round.
	files = append(files, round(t, crawl, "shards/000", "r4", 4, page("http://h/longer", "Same", "delta"), visit{url: b, outcome: record.OutcomeDenied}))
	upToDate(t, crawl, files...)
	check("delta", "http://h/longer")
	check("gamma")
	whole := dump(t, crawl)
	// One update gives what several gave.
	os.Remove(filepath.Join(crawl, "search.db"))
	upToDate(t, crawl, files...)
	if again := dump(t, crawl); again != whole {
		t.Errorf("one update gives\n%s\nseveral gave\n%s", again, whole)
	}
	// After a restore, a round of the same name has other rows.
	files[2] = round(t, crawl, "", "r3", 9, page(b, "Back", "zeta"))
	x, err := Open(t.Context(), filepath.Join(crawl, "search.db"), false, 0)
	must.OK(t, err)
	if n, anew, err := x.Behind(t.Context(), files[:3]); n != 3 || !anew || err != nil {
		t.Error(n, anew, err)
	}
	x.Close()
	if r := upToDate(t, crawl, files[:3]...); !r.Anew || r.Files != 3 {
		t.Errorf("%+v", r)
	}
	check("zeta", b)
	check("delta", c)
	if r := upToDate(t, crawl, files[:1]...); !r.Anew || r.Files != 1 {
		t.Errorf("%+v", r)
	}
	check("gamma", b)
	if urls, results := find(t, crawl, Query{Words: "gamma"}); len(urls) != 1 || results[0].Title != "Other" || results[0].Marked("<", ">") != "beta <gamma> alpha words more" {
		t.Errorf("%q %+v", urls, results)
	}
	if r := upToDate(t, crawl); !r.Anew || r.Files != 0 {
		t.Errorf("%+v", r)
	}
	check("gamma")
}

// An index packs texts, and gives back the room of documents that leave.
func TestRoom(t *testing.T) {
	crawl := t.TempDir()
	const url = "http://h/"
	var files []File
	for i, v := range []visit{page(url, "Long", strings.Repeat("a text that is packed ", 20_000)), page(url, "Words", strings.Trim(fmt.Sprint(rand.New(rand.NewPCG(1, 2)).Perm(50_000)), "[]")), status(url, 410)} {
		files = append(files, round(t, crawl, "", fmt.Sprintf("r%d", i), i+1, v))
		upToDate(t, crawl, files...)
		if n := sizes(filepath.Join(crawl, "search.db"))[0]; (n > 200_000) != (i == 1) {
			t.Errorf("round %d: %d bytes", i, n)
		}
	}
}

// Pages that ask not to be indexed, by meta element or by X-Robots-Tag, are not; they leave when they begin to ask, also where the content is as it was or that
// of another URL, and come back when they ask no more.
func TestNoIndex(t *testing.T) {
	crawl := t.TempDir()
	check := func(words string, want ...string) {
		t.Helper()
		if urls, _ := find(t, crawl, Query{Words: words}); !slices.Equal(urls, want) {
			t.Errorf("%s: %q, want %q", words, urls, want)
		}
	}
	const ask = "X-Robots-Tag: noindex\r\n"
	with := func(v visit, header string) visit { v.header = header; return v }
	again := func(v visit, header string) visit { v.last, v.header = v.body, header; return v }
	a, b, c := page("http://h/a", "A", "same"), page("http://h/b", "A", "same"), page("http://h/c", "C", "meta")
	barred := c
	barred.body = `<meta name=robots content=nofollow><META NAME="Robots" CONTENT="NoIndex">` + c.body
	unchanged := func(v visit) visit { return visit{url: v.url, outcome: record.OutcomeNotModified, status: 304} }
	rounds := []struct {
		visits []visit
		want   Report
		found  []string // of the words
		same   []string
	}{
		{[]visit{a, with(b, ask), barred, with(page("http://h/d", "D", "meta"), "X-Robots-Tag: otherbot: noindex\r\nX-Robots-Tag: nosnippet\r\n"), with(page("http://h/e", "E", "meta"), "X-Robots-Tag: none\r\n")},
			Report{Files: 1, New: 2}, []string{"http://h/d"}, []string{a.url}},
		{[]visit{again(a, ask), again(b, ""), again(barred, "")}, Report{Files: 1, New: 1, Gone: 1}, []string{"http://h/d"}, []string{b.url}},
		{[]visit{unchanged(a), unchanged(b), unchanged(barred), c}, Report{Files: 1, New: 1, Same: 1}, []string{"http://h/d", c.url}, []string{b.url}},
		{[]visit{again(a, ""), again(b, ask), barred}, Report{Files: 1, New: 1, Gone: 2}, []string{"http://h/d"}, []string{a.url}},
		{[]visit{with(unchanged(a), ask), with(unchanged(b), "ETag: x\r\n"), with(visit{url: "http://h/d", outcome: record.OutcomeNotModified, status: 304}, "ETag: x\r\n")}, Report{Files: 1, Same: 1, Gone: 1}, []string{"http://h/d"}, nil},
		{[]visit{unchanged(a)}, Report{Files: 1, New: 1}, []string{"http://h/d"}, []string{a.url}},
	}
	var files []File
	for i, r := range rounds {
		files = append(files, round(t, crawl, "", fmt.Sprintf("r%d", i+1), i+1, r.visits...))
		if got := upToDate(t, crawl, files...); got != r.want {
			t.Errorf("round %d: %+v, want %+v", i+1, got, r.want)
		}
		check("meta", r.found...)
		check("same", r.same...)
	}
	whole := dump(t, crawl)
	os.Remove(filepath.Join(crawl, "search.db"))
	upToDate(t, crawl, files...)
	if again := dump(t, crawl); again != whole {
		t.Errorf("one update gives\n%s\nseveral gave\n%s", again, whole)
	}
}

// dump is all rows of an index.
func dump(t testing.TB, crawl string) string {
	t.Helper()
	x, err := Open(t.Context(), filepath.Join(crawl, "search.db"), false, time.Second)
	must.OK(t, err)
	defer x.Close()
	var all strings.Builder
	for _, query := range []string{`SELECT json_array(n, path, bytes, end) FROM file ORDER BY n`, `SELECT json_array(id, fp, hex(packed)) FROM doc ORDER BY id`,
		`SELECT json_array(url, host, doc, gone, fp, fetched, store, warc, offset, length, body, mime, charset) FROM page ORDER BY url`,
		`SELECT json_array(rowid, title, body) FROM text ORDER BY rowid`, `SELECT json_array(rowid, rank) FROM text WHERE text MATCH 'common OR meta OR delta' ORDER BY rowid`} {
		rows, err := x.conn.QueryContext(t.Context(), query)
		must.OK(t, err)
		for rows.Next() {
			var line string
			must.OK(t, rows.Scan(&line))
			all.WriteString(line + "\n")
		}
		must.OK(t, rows.Err(), rows.Close())
	}
	return all.String()
}

// What pages and queries say is data.
func TestHostile(t *testing.T) {
	crawl := t.TempDir()
	upToDate(t, crawl, round(t, crawl, "", "r1", 1,
		page("http://h/esc", "\x1b]0;owned\a \u202etitle", "evil \x02x\x03 \x1b[31m <b>&lt;script&gt;alert(1)&lt;/script&gt; \u2066word \u2028 lines\x00"),
		visit{url: "http://h/cut", outcome: record.OutcomeFetched, status: 200, mime: "application/pdf", body: "%PDF-1.4 evil"},
		visit{url: "http://h/big", outcome: record.OutcomeFetched, status: 200, mime: "text/plain", body: "first " + strings.Repeat("filler ", 2*MaxText/7) + "beyond"}))
	_, results := find(t, crawl, Query{Words: "evil"})
	if len(results) != 1 {
		t.Fatal(results)
	}
	if s := results[0].Title + results[0].Snippet; strings.ContainsAny(s, "\x00\x02\x03\x07\x1b\u2028\u202e\u2066") || !strings.Contains(s, "<script>alert(1)</script>") {
		t.Errorf("%q", s)
	}
	if s := results[0].Marked("*", "*"); !strings.Contains(s, "*evil* x") {
		t.Errorf("%q", s)
	}
	if urls, _ := find(t, crawl, Query{Words: "first"}); len(urls) != 1 {
		t.Errorf("%q", urls)
	}
	if urls, _ := find(t, crawl, Query{Words: "beyond"}); len(urls) != 0 {
		t.Errorf("text of more than %d bytes: %q", MaxText, urls)
	}
	for _, words := range []string{`evil) OR (x`, `title:evil NEAR(`, `"evil`, `evil"x""`, `evil* *`, `^evil + {`, "evil\x00'; DROP TABLE text", "AND OR NOT evil", `evil -"`, "\xff\xfe evil", `evil -nothing*`} {
		find(t, crawl, Query{Words: words})
	}
	for _, words := range []string{"", " ", `"`, "*", "-x", "()", strings.Repeat("w ", maxTerms+1), strings.Repeat("w", maxQuery+1)} {
		if _, err := Expression(words); !errors.Is(err, fault.Usage) || fault.HintOf(err) == "" {
			t.Errorf("%.20q: %v", words, err)
		}
	}
}

// Words are found in all their forms, also inside runs without spaces, and are marked in the document's own text.
func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name  string
		found []string // the text with marks; the first thing marked finds it, and so do the queries behind it
		not   string   // what finds nothing
	}{
		{"Japanese", []string{"今日は<システム>の設定、終わり。", "今日はシステムの<設定>、終わり。", "今日はシステ<ム>の設定、終わり。 | ﾑ | ム*", "今日は<システムの設定、終わり>。", "<今日>はシステムの設定、終わり。 | 今日*"}, "ジステム システメ 設終 定終わ"},
		{"half-width kana", []string{"<ﾃﾞｰﾀﾍﾞｰｽ>管理 | データベース", "ﾃﾞｰﾀ<ﾍﾞｰｽ>管理 | ベース"}, "テータベース ヘース"},
		{"Chinese", []string{"如何<安装>Linux系统？<安装>器", "如何安装<Linux>系统？安装器 | ＬＩＮＵＸ | linu*", "如何<安装Linux系统>？安装器", "如何安<装Linux系>统？安装器 | \"装 linux 系\"", "如何安装Linux系统？安<装器> | 装器 -系器", "如何安装Linux系统？安装<器>"}, "裝 统安装 系统器"},
		{"two words that overlap", []string{"<安装><器> | 安装 装器"}, "器装"},
		{"Korean", []string{"새 <시스템>을 설치합니다 | \u1109\u1175\u1109\u1173\u1110\u1166\u11b7", "새 시스템을 <설치>합니다 | 설치*", "<새> 시스템을 설치합니다"}, "템설 을설치"},
		{"Korean in parts", []string{"<\u1109\u1165\u1107\u1165>를 | 서버"}, "서바"},
		{"Thai", []string{"<ไม่>สามารถเปิดแฟ้ม", "ไม่<สามารถ>เปิดแฟ้ม", "ไม่สามารถเปิด<แฟ้ม>"}, "ไมสามารถ แฟม"},
		{"Lao", []string{"ເປີດ<ແຟ້ມ>ໃໝ່"}, "ແຟມ"},
		{"Khmer", []string{"បើក\u200b<ឯកសារ>មេ", "<បើក\u200bឯកសារមេ> | បើកឯកសារ\u200bមេ"}, "បក"},
		{"Burmese", []string{"ပုံ<ဖိုင်>စနစ်"}, "ဖင"},
		{"Hindi", []string{"<फ़ाइल> की सूची | फ\u093cाइल", "फ़ाइल की <सूची> | सू*"}, "फाइल सच"},
		{"Greek", []string{"ο <χώρος> και ΤΑ ΣΥΣΤΉΜΑΤΑ | ΧΩΡΟΣ | χωροσ | χώ*", "ο χώρος και ΤΑ <ΣΥΣΤΉΜΑΤΑ> | συστήματα"}, "χωρο"},
		{"German", []string{"<Große> Straße | GROSSE | grosse | GROẞE | gross*", "Große <Straße> | strasse"}, "grobe"},
		{"Russian", []string{"<Ещё> мой | еще | ЕЩЁ", "Ещё <мой> | мои | МОЙ"}, "еш"},
		{"accents in parts, a soft hyphen", []string{"<re\u0301sume\u0301> co\u00adopère | RESUME | résumé", "re\u0301sume\u0301 <co\u00adopère> | coopere"}, "re sume co"},
		{"Turkish, Polish", []string{"<İstanbul> ŻÓŁW | istanbul | ISTANBUL", "İstanbul <ŻÓŁW> | żółw | zołw"}, "ıstanbul zolw"},
		{"Vietnamese", []string{"<cài> đặt | cai", "cài <đặt> | ĐẶT | đat"}, "dat"},
		{"Arabic, Hebrew", []string{"<كِتَاب> أحمد שָׁלוֹם | كتاب", "كِتَاب <أحمد> שָׁלוֹם | احمد", "كِتَاب أحمد <שָׁלוֹם> | שלום"}, "كتب"},
		{"compatible forms", []string{"<２０２４>年 ﬁle x² Linux™ ⑴⑵ | 2024", "２０２４年 <ﬁle> x² Linux™ ⑴⑵ | FILE", "２０２４年 ﬁle <x²> Linux™ ⑴⑵ | x2", "２０２４年 ﬁle x² <Linux>™ ⑴⑵", "２０２４年 ﬁle x² Linux™ <⑴⑵> | 12"}, "linuxtm 1"},
		{"marks alone", []string{"\u0301<a>☺\ufe0fb \u3099", "\u0301a☺\ufe0f<b> \u3099"}, "ab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			crawl := t.TempDir()
			text, _, _ := strings.Cut(c.found[0], " | ")
			text = strings.NewReplacer("<", "", ">", "").Replace(text)
			upToDate(t, crawl, round(t, crawl, "", "r1", 1, visit{url: "http://h/", outcome: record.OutcomeFetched, status: 200, mime: "text/plain; charset=utf-8", body: text}))
			for _, want := range c.found {
				queries := strings.Split(want, " | ")
				want = queries[0]
				if _, marked, _ := strings.Cut(want, "<"); !strings.Contains(marked, "<") {
					marked, _, _ = strings.Cut(marked, ">")
					queries[0] = `"` + marked + `"`
				} else {
					queries = queries[1:]
				}
				for _, q := range queries {
					if _, results := find(t, crawl, Query{Words: q}); len(results) != 1 || results[0].Marked("<", ">") != want {
						t.Errorf("%s: %+v, want %s", q, results, want)
					}
				}
			}
			for _, q := range strings.Fields(c.not) {
				if _, results := find(t, crawl, Query{Words: q}); len(results) != 0 {
					t.Errorf("%s: %s", q, results[0].Marked("<", ">"))
				}
			}
		})
	}
}

// A piece begins behind a stop, ends with its last word, and has what stands between its words. Where the pieces are many, it is one that has the words.
func TestPieces(t *testing.T) {
	crawl := t.TempDir()
	stop, more := strings.Repeat("before ", 99)+"the end. ", strings.Repeat("— so（on）", 99)
	upToDate(t, crawl, round(t, crawl, "", "r1", 1, page("http://h/1", "A title", stop+"It is Ünï-code, "+more), page("http://h/2", "!", "!"), page("http://h/3", "Of no text", ""),
		page("http://h/4", "中文", strings.Repeat("前面，", 99)+"完了。安装程序"+strings.Repeat("，后面", 99))))
	for _, c := range []struct{ query, want string }{
		{"unicode", ""},
		{"uni code", "…It is <Ünï>-<code>, — " + strings.Repeat("so（on）— ", 13) + "so（on…"},
		{"title", strings.TrimSpace(strings.Repeat("before ", 32)) + "…"},
		{"text", ""},
		{"程序", "…" + "安装<程序>，" + strings.Repeat("后面，", 13) + "后面…"},
	} {
		_, results := find(t, crawl, Query{Words: c.query})
		got := ""
		for _, r := range results {
			got += r.Marked("<", ">")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
	if urls, _ := find(t, crawl, Query{Words: "text OR"}); len(urls) != 0 {
		t.Errorf("%q", urls)
	}
}

// A run of letters without end is words of bounded length, for each script.
func TestLongWords(t *testing.T) {
	for _, c := range []struct{ name, run string }{{"ASCII", "x"}, {"letters", "é"}, {"accents", "a\u0301\u0316"}, {"marks of a letter", "\u093c\u0951"}, {"many of one", "\ufdfa"}, {"no spaces", "か\u3099\u3099"}} {
		t.Run(c.name, func(t *testing.T) {
			text, end := "x"+strings.Repeat(c.run, 4<<10), 0
			for w := range wordsOf(text) {
				if w.to-w.from > 2*(maxWord+utf8.UTFMax) || w.from > end { // a pair has two
					t.Fatalf("a word from %d to %d, after one to %d", w.from, w.to, end)
				}
				end = max(end, w.to)
			}
			if end != len(text) {
				t.Errorf("%d bytes in words, want %d", end, len(text))
			}
			crawl := t.TempDir()
			upToDate(t, crawl, round(t, crawl, "", "r1", 1, page("http://h/", "", text+" hay needle")))
			for _, words := range []string{"needle", text[:maxQuery-utf8.UTFMax]} {
				if _, r := find(t, crawl, Query{Words: strings.ToValidUTF8(words, "")}); words == "needle" && (len(r) != 1 || len(r[0].Snippet) > 40*maxWord) {
					t.Errorf("%d results", len(r))
				}
			}
		})
	}
}

// What leaves the index is folded again: another form of a character leaves words behind, and needs another Version.
func TestFoldIsKept(t *testing.T) {
	var all strings.Builder
	for r := range rune(unicode.MaxRune) {
		all.WriteString(join("x" + string(r) + "x"))
	}
	if got, want := fmt.Sprintf("%d: %x", Version, fingerprint.Of([]byte(all.String()))), "4: c688be4095ab37d"; got != want {
		t.Errorf("words are folded in another way by Unicode %s: %s, want %s; raise Version", unicode.Version, got, want)
	}
	// A document of characters that stand for many fits in.
	if n := len(join(strings.Repeat("\ufdfa ", MaxText/4))); n > maxWords || n < maxWords-100 {
		t.Errorf("%d bytes of words, want just below %d", n, maxWords)
	}
}

func FuzzExpression(f *testing.F) {
	crawl := f.TempDir()
	upToDate(f, crawl, round(f, crawl, "", "r1", 1, page("http://h/", "a", "b c 安装系统, ｼｽﾃﾑ é")))
	x, err := Open(f.Context(), filepath.Join(crawl, "search.db"), false, 0)
	must.OK(f, err)
	defer x.Close()
	for _, s := range []string{"a", `a "b c" -d e*`, `"`, `-"a"*b`, "é\x00", "\xff a", "٣ 中文*", "\"安装 x\" ﾑ* กำ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, words string) {
		if _, _, err := x.Find(context.Background(), Query{Words: words, Most: 3}); err != nil && !errors.Is(err, fault.Usage) {
			t.Errorf("%q: %v", words, err)
		}
	})
}

// Files that are no index, or one of another version.
func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "search.db")
	open := func(create bool, want error) {
		t.Helper()
		x, err := Open(t.Context(), path, create, 0)
		if err == nil {
			x.Close()
		}
		if !errors.Is(err, want) || want != nil && !strings.Contains(fault.HintOf(err), "msearch") {
			t.Errorf("%v, hint %q, want %v", err, fault.HintOf(err), want)
		}
	}
	open(false, fault.Usage)
	os.WriteFile(path, nil, 0o666)
	open(false, fault.Usage) // of an update that was killed
	open(true, nil)
	exec := func(query string) {
		t.Helper()
		x, err := Open(t.Context(), path, false, 0)
		if err == nil {
			err = errors.Join(x.exec(t.Context(), query), x.Close())
		}
		must.OK(t, err)
	}
	exec("PRAGMA user_version = 2")
	open(false, fault.Version)
	open(true, fault.Version)
	os.Remove(path)
	open(true, nil)
	exec("PRAGMA application_id = 7")
	open(false, fault.WrongKind)
	open(true, fault.WrongKind)
	os.Remove(path)
	open(true, nil)
	if b, err := os.ReadFile(path); err != nil || os.WriteFile(path, slices.Concat(b[:47], []byte{9}, b[48:]), 0o666) != nil {
		t.Fatal(err)
	}
	open(false, fault.Corrupt) // a header that is damaged
	os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o666)
	open(false, fault.WrongKind)
	open(true, fault.WrongKind)
	if b, _ := os.ReadFile(path); !strings.HasPrefix(string(b), "no database") {
		t.Errorf("the file was changed")
	}
}

// A disk that is full has a hint.
func TestFull(t *testing.T) {
	x, err := Open(t.Context(), filepath.Join(t.TempDir(), "search.db"), true, 0)
	must.OK(t, err)
	defer x.Close()
	err = x.exec(t.Context(), "PRAGMA max_page_count = 1; CREATE TABLE large AS SELECT zeroblob(1000000)")
	if err = x.named(t.Context(), err); !strings.Contains(fmt.Sprint(err), "is full") || !strings.Contains(fault.HintOf(err), "df -h") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}

// many are rounds of pages that come, change and go.
func many(t testing.TB, crawl string, rounds, pages int) (files []File) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range rounds {
		var visits []visit
		for n := range pages {
			url := fmt.Sprintf("http://h%d/%d", n%3, rng.IntN(2*pages))
			switch rng.IntN(6) {
			case 0:
				visits = append(visits, status(url, 404))
			case 1:
				visits = append(visits, visit{url: url, outcome: record.OutcomeNotModified, status: 304})
			default:
				visits = append(visits, page(url, fmt.Sprintf("page %d", rng.IntN(pages)), "common "+strings.Repeat(fmt.Sprintf("word%d ", rng.IntN(50)), 40)))
			}
		}
		under := ""
		if i%2 == 1 {
			under = "shards/001"
		}
		files = append(files, round(t, crawl, under, fmt.Sprintf("r%d", i+1), i+1, visits...))
	}
	return files
}

// An update that is killed at any moment, and run again, gives the same index.
func TestKill(t *testing.T) {
	if list := os.Getenv("MSEARCH_FILES"); list != "" { // the process that is killed
		var files []File
		must.OK(t, json.Unmarshal([]byte(list), &files))
		upToDate(t, os.Getenv("MSEARCH_CRAWL"), files...)
		return
	}
	crawl := t.TempDir()
	files := many(t, crawl, 12, 60)
	upToDate(t, crawl, files...)
	want := dump(t, crawl)
	db := filepath.Join(crawl, "search.db")
	must.OK(t, os.Remove(db))
	list, err := json.Marshal(files)
	must.OK(t, err)
	kills := 0
	for try := 1; ; try++ {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "MSEARCH_CRAWL="+crawl, "MSEARCH_FILES="+string(list))
		must.OK(t, cmd.Start())
		before := sizes(db)
		// It is killed a little after the database has changed: while it works, not while it starts.
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		for range 1000 {
			if sizes(db) != before {
				break
			}
			time.Sleep(time.Millisecond)
		}
		select {
		case err = <-done:
		case <-time.After(time.Duration(try) * 2 * time.Millisecond):
			cmd.Process.Kill()
			err = <-done
		}
		if err == nil {
			break
		}
		kills++
	}
	t.Logf("%d kills", kills)
	if kills < 2 {
		t.Errorf("%d kills", kills)
	}
	if got := dump(t, crawl); got != want {
		t.Errorf("after %d kills\n%s\nwant\n%s", kills, got, want)
	}
}

// sizes returns the sizes that the file system gives for a database.
func sizes(db string) (s [2]int64) {
	for i, name := range []string{db, db + "-wal"} {
		if st, err := os.Stat(name); err == nil {
			s[i] = st.Size()
		}
	}
	return s
}

// Queries see whole files while an update runs, and two updates share the work.
func TestTogether(t *testing.T) {
	crawl := t.TempDir()
	files := many(t, crawl, 8, 40)
	upToDate(t, crawl, files...)
	want := dump(t, crawl)
	os.Remove(filepath.Join(crawl, "search.db"))
	upToDate(t, crawl, files[:1]...)
	errs := make(chan error)
	for range 2 {
		go func() {
			x, err := Open(t.Context(), filepath.Join(crawl, "search.db"), true, 20*time.Second)
			if err == nil {
				_, err = x.Update(t.Context(), files, Settings{})
				err = errors.Join(err, x.Close())
			}
			errs <- err
		}()
	}
	for left := 2; left > 0; {
		select {
		case err := <-errs:
			if left--; err != nil {
				t.Error(err)
			}
		default:
			if urls, _ := find(t, crawl, Query{Words: "common", Most: 1000}); len(urls) == 0 {
				t.Error("a query found nothing")
			}
		}
	}
	if got := dump(t, crawl); got != want {
		t.Errorf("two updates gave\n%s\nwant\n%s", got, want)
	}
}

// The file may come from somebody else: what it says is not run, and a value is bounded.
func TestForeignIndex(t *testing.T) {
	ctx := context.Background()
	const word = `; INSERT INTO text(rowid, title, body) VALUES (1, 'word', 'word')`
	for _, c := range []struct {
		name, change string
		class        fault.Class
	}{
		{"as made", ``, ""},
		{"a view", `CREATE VIEW v AS SELECT 1`, fault.WrongKind},
		{"a view in place of a table", `DROP TABLE page; CREATE VIEW page AS WITH RECURSIVE n(doc) AS (SELECT 1 UNION ALL SELECT doc FROM n) SELECT doc, 'u' url, 'h' host, 0 gone, 0 fetched FROM n`, fault.WrongKind},
		{"a trigger", `CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM page; END`, fault.WrongKind},
		{"a column that is computed", `DROP TABLE doc; CREATE TABLE doc(id INTEGER PRIMARY KEY, fp INTEGER AS (id + 1))`, fault.WrongKind},
		{"an index on an expression", `CREATE INDEX i ON doc(abs(fp))`, fault.WrongKind},
		{"a table less", `DROP INDEX page_doc`, fault.WrongKind},
		{"a large value", `INSERT INTO doc VALUES (1, 1, '', zeroblob(5000000))` + word, fault.Corrupt},
		{"a text that unpacks to much", fmt.Sprintf(`INSERT INTO doc VALUES (1, 1, '', x'%x')`, packer.EncodeAll(make([]byte, maxValue+1), nil)) + word, fault.Corrupt},
		{"a text that is not packed", `INSERT INTO doc VALUES (1, 1, '', x'00')` + word, fault.Corrupt},
		{"words of no document", word, fault.Corrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "search.db")
			x, err := Open(ctx, path, true, 0)
			must.OK(t, err)
			must.OK(t, x.Close())
			db, err := sql.Open("sqlite", path)
			must.OK(t, err)
			_, err = db.Exec(c.change)
			must.OK(t, err)
			must.OK(t, db.Close())
			for _, create := range []bool{false, true} {
				x, err = Open(ctx, path, create, 0)
				if err == nil {
					_, _, err = x.Find(ctx, Query{Words: "word", Most: 10})
					x.Close()
				}
				if fault.ClassOf(err) != c.class || (err == nil) != (c.class == "") {
					t.Errorf("create %v: %v, want %q", create, err, c.class)
				}
			}
		})
	}
}
