package fetch

import (
	"io"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/folder/bodies"
	"mercator/pkg/web/httpmsg"
)

// plainDoc is a document for the commands behind: the head as it came, then the decoded body. Pooled.
type plainDoc struct {
	limited        // gathers it,
	given   []byte // unless it stands in memory like that
	head    int    // bytes
}

var plainDocs = sync.Pool{New: func() any { return new(plainDoc) }}

// plainOf begins with the head; nil: there is no document that the commands behind read, or nobody knows where its head ends, or it has none where HTTP has one.
func plainOf(reply *Reply) *plainDoc {
	if reply.Response == nil || reply.Media == "" && (reply.Head == nil || reply.Head.Size == 0 || reply.Head.Status/100 != 2) {
		return nil
	}
	d := plainDocs.Get().(*plainDoc)
	d.Reset()
	d.head, d.given = 0, nil
	if reply.Media == "" {
		d.head = reply.Head.Size
	}
	if memory, ok := reply.Response.(interface{ Whole() ([]byte, bool) }); ok && decoded(reply) {
		if b, ok := memory.Whole(); ok {
			d.given = b
			return d
		}
	}
	// Pages swell to the fivefold. One that swells more is left to the archive, as memory is taken for the most that comes.
	d.max = d.head + int(min(bodies.BodyMax, 64<<10+8*reply.Length))
	_, err := io.CopyN(&d.Buffer, reply.Response, int64(d.head))
	if err == nil {
		err = toStart(reply)
	}
	if err != nil { // which the encoder meets too
		d.free()
		return nil
	}
	return d
}

// decoded reports whether the body came without any coding.
func decoded(reply *Reply) bool {
	if reply.Media != "" {
		return true
	}
	framing, _ := reply.Head.Framing()
	return framing != httpmsg.ByChunks && reply.Head.Codings() == ""
}

// put writes the document of a row that the commands behind will read.
func (d *plainDoc) put(w *bodies.Writer, row *record.Fetch) bodies.Place {
	if row.Outcome != record.OutcomeFetched || row.Status/100 != 2 || row.RedirectURL != "" || row.BodyLength <= 0 {
		return bodies.Place{}
	}
	end := int64(d.head) + row.BodyLength
	switch {
	case d.given != nil && end <= int64(len(d.given)):
		return w.Put(d.given[:end], d.head)
	case d.given == nil && end == int64(d.Len()):
		return w.Put(d.Bytes(), d.head)
	}
	return bodies.Place{}
}

// body returns the bytes gathered of the document, without its head.
func (d *plainDoc) body() []byte {
	b := d.given
	if b == nil {
		b = d.Bytes()
	}
	return b[min(d.head, len(b)):]
}

func (d *plainDoc) free() {
	if d.given = nil; d.Cap() <= groupKeep {
		plainDocs.Put(d)
	}
}
