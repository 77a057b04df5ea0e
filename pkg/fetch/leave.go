package fetch

import (
	"io"
	"sync"

	"mercator/formats/record"
	"mercator/pkg/bodies"
	"mercator/pkg/httpmsg"
)

// leftBody is a document that is left for the commands behind: the head as it came, then the decoded body. Pooled.
type leftBody struct {
	limited        // gathers it,
	whole   []byte // unless it stands in memory like that
	head    int    // bytes
}

var leftBodies = sync.Pool{New: func() any { return new(leftBody) }}

// leave begins with the head; nil: there is no document, or nobody knows where its head ends, or it has none where HTTP has one.
func leave(reply *Reply) *leftBody {
	if reply.Response == nil || reply.Media == "" && (reply.Head == nil || reply.Head.Size == 0) {
		return nil
	}
	l := leftBodies.Get().(*leftBody)
	l.Reset()
	l.head, l.whole = 0, nil
	if reply.Media == "" {
		l.head = reply.Head.Size
	}
	if memory, ok := reply.Response.(interface{ Whole() ([]byte, bool) }); ok && decoded(reply) {
		if b, ok := memory.Whole(); ok {
			l.whole = b
			return l
		}
	}
	// Pages swell to the fivefold. One that swells more is left to the archive, as memory is taken for the most that comes.
	l.max = l.head + int(min(bodies.BodyMax, 64<<10+8*reply.Length))
	_, err := io.CopyN(&l.Buffer, reply.Response, int64(l.head))
	if err == nil {
		err = toStart(reply)
	}
	if err != nil { // which the encoder meets too
		l.free()
		return nil
	}
	return l
}

// decoded says whether the body came without any coding.
func decoded(reply *Reply) bool {
	if reply.Media != "" {
		return true
	}
	framing, _ := reply.Head.Framing()
	return framing != httpmsg.ByChunks && reply.Head.Codings() == ""
}

// put writes the document of a row that the commands behind will read.
func (l *leftBody) put(w *bodies.Writer, row *record.Fetch) bodies.Place {
	if row.Outcome != record.OutcomeFetched || row.Status/100 != 2 || row.RedirectURL != "" || row.BodyLength <= 0 {
		return bodies.Place{}
	}
	end := int64(l.head) + row.BodyLength
	switch {
	case l.whole != nil && end <= int64(len(l.whole)):
		return w.Put(l.whole[:end], l.head)
	case l.whole == nil && end == int64(l.Len()):
		return w.Put(l.Bytes(), l.head)
	}
	return bodies.Place{}
}

func (l *leftBody) free() {
	if l.whole = nil; l.Cap() <= groupKeep {
		leftBodies.Put(l)
	}
}
