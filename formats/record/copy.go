package record

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// CopyFrom writes the rows of a whole stream, and Arrow's end of stream behind
// them, without taking the rows apart: frames of the writer's own kind go through
// as they are, others are packed anew. Commit then writes the trailer, which says
// of the rows what the trailer of s said. It is for a stream that this program
// wrote (a spool): only its checksums are verified, the hash of its wire last.
//
// Nothing is read or written, and ok is false, unless both have the same schema
// and metadata, w is new, and both are in the container. An error sticks to w.
func (w *Writer[T]) CopyFrom(s *Source) (t Trailer, ok bool, err error) {
	w.lock()
	defer w.unlock()
	if w.err != nil {
		return Trailer{}, false, w.err
	}
	if s.bare || w.frames.bare || s.frames.n != 1 || w.rows > 0 || w.ended || len(w.allFrames) > 1 || !bytes.Equal(s.schema, w.msg.schema) {
		return Trailer{}, false, nil
	}
	if t, err = w.copyFrames(s); err != nil {
		return Trailer{}, true, w.stick(err)
	}
	w.rows, w.copied, w.ended = t.Rows, &t.Hash, true
	return t, true, nil
}

func (w *Writer[T]) copyFrames(s *Source) (Trailer, error) {
	for {
		if err := s.nextFrame(); err != nil {
			return Trailer{}, err
		}
		p, err := s.frames.packed(MaxMessage)
		if err != nil {
			return Trailer{}, s.fail(err)
		}
		end := p.size == len(endOfStream)
		if p.raw == !w.frames.packs && !end {
			err = w.frames.pass(s.frames.buf)
		} else {
			var content []byte
			if content, err = s.frames.unpack(p); err != nil {
				return Trailer{}, s.fail(err)
			}
			if end && !bytes.Equal(content, endOfStream) {
				return Trailer{}, s.fail(errors.New("a message of 8 bytes, want the end of stream"))
			}
			_, err = w.frames.write(content)
		}
		if end && err == nil {
			err = w.frames.drain()
		}
		if err != nil {
			return Trailer{}, err
		}
		if end {
			break
		}
	}
	t, err := s.readTrailer()
	if err != nil {
		return Trailer{}, err
	}
	return *t, nil
}

// pass writes a frame as it is, behind those that are still being compressed.
func (f *frameWriter) pass(frame []byte) error {
	if err := f.drain(); err != nil {
		return err
	}
	return f.emit(frame)
}

// ReadTrailer reads a record stream for its trailer, without taking its rows apart: only the hash of its bytes is verified, as
// in CopyFrom. With several streams, it is the trailer of the first.
func ReadTrailer(in io.Reader, opt ReaderOptions) (Trailer, error) {
	s, err := Open(in, opt)
	if err != nil {
		return Trailer{}, err
	}
	if s.bare {
		return Trailer{}, s.cut("plain Arrow, which has no trailer")
	}
	return s.skip(context.Background())
}

// skip reads the rest of a stream for its trailer.
func (s *Source) skip(ctx context.Context) (Trailer, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return Trailer{}, err
		}
		if err := s.nextFrame(); err != nil {
			return Trailer{}, err
		}
		p, err := s.frames.packed(MaxMessage)
		if err != nil {
			return Trailer{}, s.fail(err)
		}
		if p.size == len(endOfStream) {
			break
		}
	}
	t, err := s.readTrailer()
	if err != nil {
		return Trailer{}, err
	}
	return *t, nil
}

// Skip reads the input to its end for its trailer, without taking rows apart. It is called before any row is read. As in CopyFrom,
// only the hash of each stream's bytes is verified. Trailer then has no hash of rows if there are several streams. Plain Arrow
// is read as Read does. Skip fails with the cause of ctx once that has ended.
func (r *Reader[T]) Skip(ctx context.Context) error {
	if r.src.bare {
		return Each(r, func(*T) error { return context.Cause(ctx) })
	}
	for r.sticky == nil {
		t, err := r.src.skip(ctx)
		if err == nil {
			r.join(&t, t.Hash)
			err = r.src.nextStream()
		}
		r.sticky = err
	}
	if r.n > 1 {
		r.total.Hash = Hash{}
	}
	if r.sticky != io.EOF {
		return r.sticky
	}
	return nil
}
