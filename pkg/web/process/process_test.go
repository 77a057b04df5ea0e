package process

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"mercator/pkg/base/must"
)

func run(t *testing.T, spec string, doc *Document) []string {
	t.Helper()
	m, err := Parse(spec, ExecLimits{Timeout: time.Minute})
	must.OK(t, err)
	findings, _ := NewRunner([]Selected{m}).Run(context.Background(), doc)
	var out []string
	for _, f := range findings {
		out = append(out, f.Key+"="+f.Value)
	}
	return out
}

func gifOf(t *testing.T, frames int) []byte {
	t.Helper()
	g := &gif.GIF{}
	for range frames {
		g.Image = append(g.Image, image.NewPaletted(image.Rect(0, 0, 30, 20), color.Palette{color.Black, color.White, color.Gray{1}}))
		g.Delay = append(g.Delay, 1)
	}
	var b bytes.Buffer
	must.OK(t, gif.EncodeAll(&b, g))
	return b.Bytes()
}

func encoded(t *testing.T, encode func(io.Writer, image.Image) error) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, encode(&b, image.NewGray(image.Rect(0, 0, 7, 9))))
	return b.String()
}

// avif is the front of an image of that size, with a thumbnail.
func avif(width, height uint32) string {
	box := func(kind, body string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))) + kind + body
	}
	size := func(w, h uint32) string {
		return box("ispe", string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 4), w), h)))
	}
	return box("ftyp", "avif\x00\x00\x00\x00mif1") +
		box("meta", "\x00\x00\x00\x00"+box("hdlr", "x")+box("iprp", box("ipco", box("pixi", "")+size(2, 3)+size(width, height))))
}

func TestBuiltin(t *testing.T) {
	var p bytes.Buffer
	must.OK(t, png.Encode(&p, image.NewGray(image.Rect(0, 0, 7, 9))))
	animated := gifOf(t, 3)
	for _, tt := range []struct {
		name, spec, mime, body string
		want                   []string
	}{
		{"page", "page", "text/html", "<html lang=de><svg><title>no</title></svg><title> A \n B&amp;C</title><title>no</title><meta NAME=Description content=' d  e '><meta name=description content=no>", []string{"language=de", "title=A B&C", "description=d e"}},
		{"page in Latin 1", "page", "text/html", "<meta charset=iso-8859-1><title>\xe9</title>", []string{"title=é"}},
		{"empty", "page", "text/html", "", nil},
		{"other type", "page", "text/plain", "<title>x</title>", nil},
		{"by type", "page=text/*", "text/plain", "<title>x</title>", []string{"title=x"}},
		{"tags", "tags", "text/html", "<p><P><b></b><x-y><br/><noscript><i>", []string{"b=1", "br=1", "i=1", "noscript=1", "other=1", "p=2"}},
		{"png", "image", "image/png", p.String(), []string{"format=png", "width=7", "height=9"}},
		{"gif", "image", "image/gif", string(animated), []string{"format=gif", "version=89a", "width=30", "height=20", "colors=0", "frames=3"}},
		{"gif cut short", "image", "image/gif", string(animated[:len(animated)*2/5]), []string{"format=gif", "version=89a", "width=30", "height=20", "colors=0", "frames=1"}},
		{"webp", "image", "image/webp", "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00/\x06\x00\x02\x00\x07\x10\x11\x11\x88\x88\xfe\x07\x00", []string{"format=webp", "width=7", "height=9"}},
		{"avif", "image", "image/avif", avif(7, 9), []string{"format=avif", "width=7", "height=9"}},
		{"avif cut short", "image", "image/avif", avif(7, 9)[:60], []string{"error=image: unknown format"}},
		{"bmp", "image", "image/bmp", encoded(t, bmp.Encode), []string{"format=bmp", "width=7", "height=9"}},
		{"tiff", "image", "image/tiff", encoded(t, func(w io.Writer, m image.Image) error { return tiff.Encode(w, m, nil) }), []string{"format=tiff", "width=7", "height=9"}},
		{"not an image", "image", "image/png", "x", []string{"error=image: unknown format"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := &Document{MIME: tt.mime, Body: []byte(tt.body)}
			if diff := cmp.Diff(tt.want, run(t, tt.spec, doc)); diff != "" {
				t.Errorf("%s: %s", tt.name, diff)
			}
		})
	}
}

// TestFindingsStay: findings, and what others ask of a page, outlast the buffer of its document.
func TestFindingsStay(t *testing.T) {
	const page = `<html lang=de><title>T</title><meta name=generator content=hand><meta name=description content="some words"><form action=/go method=post><input name=q></form><img alt=a src=b.png>`
	var all []Selected
	for _, m := range Builtin() {
		all = append(all, Selected{Module: m})
	}
	doc := &Document{MIME: "text/html", Charset: "utf-8", Body: []byte(page)}
	found := func() []any {
		findings, _ := NewRunner(all).Run(context.Background(), doc)
		title, asks := Head(doc)
		text, err := Text(doc, 0)
		return []any{findings, title, asks, About(doc), text, err, Captions(doc, 99)}
	}
	got := found()
	clear(doc.Body)
	copy(doc.Body, page)
	want := fmt.Sprint(found()...)
	clear(doc.Body)
	if got := fmt.Sprint(got...); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestExec(t *testing.T) {
	doc := &Document{URL: "http://h/$x;y", Key: 0xab, MIME: "text/plain", Charset: "utf-8", Body: []byte("one\ntwo\n")}
	for command, want := range map[string][]string{
		"cat": {"line=one", "line=two"},
		`printf 'k\tv\tw\n'; printf '%s\t%s' "$MERCATOR_URL_KEY" "$MERCATOR_URL"`: {"k=v\tw", "00000000000000ab=http://h/$x;y"},
		"exit 3":                      {"error=exit status 3"},
		"true":                        nil, // does not read its input
		"yes":                         {"error=output too long"},
		"no-such-program 2>/dev/null": {"error=exit status 127"},
		"echo out; for i in 1 2 3; do seq 999 >&2; done; exit 4": {"error=exit status 4: 999"},
		"printf '\n why \n\nmore \377\n' >&2; exit 5":            {"error=exit status 5: more \uFFFD"},
		"echo fine >&2": nil,
	} {
		t.Run(fmt.Sprintf("%.60s", command), func(t *testing.T) {
			if diff := cmp.Diff(want, run(t, "m=*/*:"+command, doc)); diff != "" {
				t.Errorf("%s: %s", command, diff)
			}
		})
	}
}

// A program that hangs is killed with its children, within its time.
func TestExecTimeout(t *testing.T) {
	m, err := Parse("slow=*/*:sleep 600 & sleep 600", ExecLimits{Timeout: 200 * time.Millisecond})
	must.OK(t, err)
	start := time.Now()
	findings, failed := NewRunner([]Selected{m}).Run(context.Background(), &Document{})
	if len(failed) != 1 || len(findings) != 1 || findings[0].Value != "no end after 200ms" {
		t.Errorf("%v, failed %v", findings, failed)
	}
	if took := time.Since(start); took > 5*time.Minute {
		t.Errorf("took %v", took)
	}
}

// A program that ends and leaves another one running leaves nothing.
func TestExecLeavesNothing(t *testing.T) {
	doc := &Document{URL: "http://h/"}
	child := must.NewChild(t)
	if got := run(t, "m=*/*:"+child.Script+" > /dev/null 2>&1 < /dev/null & echo here", doc); len(got) != 1 || got[0] != "line=here" {
		t.Error(got)
	}
	child.Killed(t)
}

// broken fails in every way, by what the document says.
type broken struct{ calls *int }

func (broken) Name() string    { return "broken" }
func (broken) Types() []string { return []string{"*/*"} }
func (b broken) New() Instance { return b }
func (b broken) Process(ctx context.Context, doc *Document, report func(k, v string)) error {
	*b.calls++
	report("before", "x")
	switch string(doc.Body) {
	case "panic":
		panic("ouch")
	case "error":
		return errors.New("no")
	case "many":
		for i := range 2 * MaxFindings {
			report(fmt.Sprint(i), strings.Repeat("é", MaxValue))
		}
	}
	return nil
}

func TestFailureStaysAlone(t *testing.T) {
	calls := 0
	r := NewRunner([]Selected{{Module: broken{&calls}}, {Module: pageModule{}, Types: []string{"*/*"}}})
	for _, body := range []string{"panic", "error", "good"} {
		findings, failed := r.Run(context.Background(), &Document{Body: []byte(body)})
		want := map[string]string{"panic": "[{broken error panic: ouch}]", "error": "[{broken error no}]", "good": "[{broken before x}]"}[body]
		why := map[string]string{"panic": "panic: ouch", "error": "no"}[body]
		if got := fmt.Sprint(findings); got != want || failed["broken"] != why || (len(failed) == 1) != (body != "good") {
			t.Errorf("%s: %s, failed %v", body, got, failed)
		}
	}
	findings, _ := r.Run(context.Background(), &Document{Body: []byte("many")})
	if len(findings) != MaxFindings || len(findings[1].Value) != MaxValue {
		t.Errorf("%d findings, value of %d bytes", len(findings), len(findings[1].Value))
	}
}

func TestParseErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"": "name", "Page": "name", "nosuch": "want one of page, tags, image, forms", "page=html": "media type",
		"x=text/html:": "no command", "x=:cat": "no media types",
	} {
		t.Run(spec, func(t *testing.T) {
			if _, err := Parse(spec, ExecLimits{}); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", spec, err, want)
			}
		})
	}
}

func FuzzModules(f *testing.F) {
	f.Add([]byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x2c"), "image/gif")
	f.Add([]byte("<title>x<meta name=description content=y>"), "text/html")
	f.Fuzz(func(t *testing.T, body []byte, mime string) {
		var all []Selected
		for _, m := range Builtin() {
			all = append(all, Selected{Module: m})
		}
		findings, _ := NewRunner(all).Run(context.Background(), &Document{MIME: mime, Body: body})
		for _, f := range findings {
			if strings.HasPrefix(f.Value, "panic") {
				t.Fatal(f)
			}
		}
	})
}
