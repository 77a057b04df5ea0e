package resolve

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/base/must"
)

// TestTable: names keep their numbers and answers, whatever their length, and a full table is emptied.
func TestTable(t *testing.T) {
	tb := newTable()
	name := func(i int) string { return fmt.Sprintf("host%d.%s", i, strings.Repeat("x", i*i%1000*(1+i%100/99*100))) }
	want := func(i int) answer {
		return answer{fmt.Sprintf("127.0.0.%d", i%256), strings.Repeat("s", i%300), "alias.test", record.Time(i) << 40}
	}
	const names = 20_000
	for i := range names {
		if n, isNew := tb.find(name(i)); int(n) != i || !isNew || tb.known(n) {
			t.Fatalf("%.40s has number %d, new: %t", name(i), n, isNew)
		}
		if i >= 1000 { // answers come later
			a := want(i - 1000)
			tb.set(uint32(i-1000), &a)
		}
	}
	for i := range names - 1000 {
		if n, isNew := tb.find(name(i)); int(n) != i || isNew || tb.name(n) != name(i) || !tb.known(n) || tb.answer(n) != want(i) {
			t.Fatalf("%.40s: number %d, %+v", name(i), n, tb.answer(n))
		}
	}
	if n, isNew := tb.within(tb.size()).find(name(1)); n != 1 || isNew {
		t.Error("a table within its bound was emptied")
	}
	if n, isNew := tb.within(tb.size() - 1).find(name(1)); n != 0 || !isNew {
		t.Error("a table beyond its bound was not emptied")
	}
}

// TestLearnt: answers of many runs, each of which the newer one replaces. A row is merged again a few times in all.
func TestLearnt(t *testing.T) {
	l := newLearnt(nil)
	defer l.Close()
	want := map[string]string{}
	const flushes, names = 1024, 10
	written, rows, most := uint64(0), map[io.Closer]bool{}, 0
	for i := range flushes {
		for j := range names {
			for _, name := range []string{fmt.Sprintf("host%d.%d.test", j, i), fmt.Sprintf("host%d.%d.test", j, i/2), "all.test"} {
				if n, isNew := l.find(name); isNew {
					want[name] = fmt.Sprintf("127.%d.%d.%d", j, i>>8, i&255)
					l.learn(n, &answer{addr: want[name], expires: 1})
				}
			}
		}
		must.OK(t, l.flush())
		most = max(most, len(l.runs))
		for _, f := range l.runs {
			if !rows[f.file] {
				rows[f.file] = true
				written += f.run.Rows()
			}
		}
	}
	if limit := uint64(10 * 2 * flushes * names); written > limit || most > 12 {
		t.Errorf("%d rows written in %d files at a time, want at most %d in 12", written, most, limit)
	}
	got := merged(t, l.runs)
	for _, row := range got {
		if row.Addr != want[row.Host] {
			t.Errorf("%s has %s, want %s", row.Host, row.Addr, want[row.Host])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
}
