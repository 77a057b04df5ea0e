package warc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"mercator/pkg/base/fault"
)

// A .warc.zst file may begin with a skippable frame that holds a dictionary, itself compressed or not, for all
// frames after it: https://iipc.github.io/warc-specifications/specifications/warc-zstd/. Small records
// have little in common with themselves, and much with each other.
const (
	skippableMagic  = 0x184d2a50 // the last four bits are free
	dictionaryMagic = 0x184d2a5d // of the skippable frame that holds a dictionary
	trainedMagic    = 0xec30a437 // of a dictionary that zstd --train makes
)

// DictionaryMax bounds a dictionary, in bytes.
const DictionaryMax = 8 << 20

// Dictionary is one of zstd.
type Dictionary struct {
	content       []byte
	id            uint32
	single, large *zstd.Encoder // of records up to windowMax, and of others
}

// NewDictionary takes what zstd --train makes.
func NewDictionary(content []byte) (*Dictionary, error) {
	if len(content) < 8 || binary.LittleEndian.Uint32(content) != trainedMagic {
		return nil, &fault.Error{Class: fault.WrongKind, Found: fmt.Sprintf("%q", content[:min(len(content), 8)]), Want: "a dictionary of zstd",
			Hint: "zstd --train FILES -o pages.dict makes one of records, a file each"}
	}
	if len(content) > DictionaryMax {
		return nil, &fault.Error{Class: fault.Corrupt, Found: fmt.Sprintf("a dictionary of %d bytes", len(content)), Want: fmt.Sprintf("at most %d", DictionaryMax)}
	}
	d := &Dictionary{content: content, id: binary.LittleEndian.Uint32(content[4:])}
	if _, err := zstd.InspectDictionary(content); err != nil {
		return nil, &fault.Error{Class: fault.Corrupt, Found: "a damaged dictionary", Want: "what zstd --train makes", Err: err}
	}
	return d, nil
}

// ReadDictionary reads one from a file.
func ReadDictionary(path string) (*Dictionary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // was read only
	content, err := io.ReadAll(io.LimitReader(f, DictionaryMax+1))
	if err != nil {
		return nil, err
	}
	d, err := NewDictionary(content)
	var e *fault.Error
	if errors.As(err, &e) {
		e.File = path
	}
	return d, err
}

// encoder of a record of that size.
func (d *Dictionary) encoder(size int) (*zstd.Encoder, error) {
	to := &d.single
	if size > windowMax {
		to = &d.large
	}
	if *to == nil {
		e, err := newZstd(size <= windowMax, zstd.WithEncoderDict(d.content))
		if err != nil {
			return nil, &fault.Error{Class: fault.Corrupt, Found: "a damaged dictionary", Want: "what zstd --train makes", Err: err}
		}
		*to = e
	}
	return *to, nil
}

// Frame returns the first frame of a file with the dictionary.
func (d *Dictionary) Frame() []byte {
	content := zstdEncoder().EncodeAll(d.content, nil)
	if len(content) >= len(d.content) {
		content = d.content
	}
	b := binary.LittleEndian.AppendUint32(nil, dictionaryMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	return append(b, content...)
}

func isSkippable(magic []byte) bool {
	return len(magic) >= 4 && binary.LittleEndian.Uint32(magic)&^0xf == skippableMagic
}

// skippable reads a skippable frame: the dictionary at the beginning of a file. Others are passed over with a
// Tolerance, and refused without.
func (r *Reader) skippable() error {
	head, err := r.in.Peek(8)
	if err != nil {
		return r.failHead(err)
	}
	size, magic := int64(binary.LittleEndian.Uint32(head[4:])), binary.LittleEndian.Uint32(head)
	if magic != dictionaryMagic || r.start != 0 {
		if r.opt.Tolerance == nil {
			return r.fault(fault.Version, "a skippable frame", "a dictionary at the beginning of the file, or none")
		}
		r.odd("skippable", "a skippable frame")
		if _, err := io.CopyN(io.Discard, r.in, 8+size); err != nil {
			return r.failHead(err)
		}
		return nil
	}
	r.in.Discard(8)
	err = r.readDictionary(r.in, size)
	if err == nil {
		r.good = r.offset()
	}
	return err
}

// readDictionary reads the content of a dictionary's frame.
func (r *Reader) readDictionary(in io.Reader, size int64) error {
	if size > DictionaryMax {
		return r.fault(fault.Corrupt, fmt.Sprintf("a dictionary of %d bytes", size), fmt.Sprintf("at most %d", DictionaryMax))
	}
	var b bytes.Buffer
	if n, err := io.Copy(&b, io.LimitReader(in, size)); err != nil {
		return r.failHead(err)
	} else if n < size {
		return r.fault(fault.Truncated, "file ends inside the dictionary", "")
	}
	content := b.Bytes()
	if len(content) >= 4 && binary.LittleEndian.Uint32(content) == frameMagic {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(DictionaryMax))
		if err != nil {
			return err
		}
		defer z.Close()
		if content, err = z.DecodeAll(content, nil); err != nil {
			return r.fault(fault.Corrupt, "a dictionary that does not decompress: "+err.Error(), "")
		}
	}
	d, err := NewDictionary(content)
	if err != nil {
		var f *fault.Error
		errors.As(err, &f)
		return r.fault(fault.Corrupt, f.Found, "a dictionary of zstd")
	}
	r.forgetDictionary()
	r.dict, r.dictOf = d, r.opt.Name
	return nil
}

// forgetDictionary gives back what was made for one.
func (r *Reader) forgetDictionary() {
	if r.withDict != nil {
		r.withDict.Close()
	}
	r.withDict, r.dict, r.dictOf = nil, nil, ""
}

// decoder returns the decoder for the frame that is next.
func (r *Reader) decoder() (z *zstd.Decoder, err error) {
	to, options := &r.zs, []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowMax)}
	var head zstd.Header
	front, _ := r.in.Peek(zstd.HeaderMaxSize)
	_ = head.Decode(front) // the decoder says what is wrong with it
	if id := head.DictionaryID; id != 0 {
		if r.dictOf != r.opt.Name {
			r.forgetDictionary()
		}
		if r.dict == nil && r.file != nil && r.opt.Offset > 0 { // read from the middle
			var front [8]byte
			if _, err := r.file.ReadAt(front[:], 0); err == nil && binary.LittleEndian.Uint32(front[:]) == dictionaryMagic {
				size := int64(binary.LittleEndian.Uint32(front[4:]))
				if err := r.readDictionary(io.NewSectionReader(r.file, 8, size), size); err != nil {
					return nil, err
				}
			}
		}
		if r.dict == nil || r.dict.id != id {
			return nil, fmt.Errorf("%w %d, which is not in the file", errDictionary, id)
		}
		to, options = &r.withDict, append(options, zstd.WithDecoderDicts(r.dict.content))
	}
	if *to == nil {
		*to, err = zstd.NewReader(nil, options...)
	}
	return *to, err
}
