package pdf

import (
	"bytes"
	"encoding/ascii85"
	"io"

	"github.com/klauspost/compress/zlib"
	"golang.org/x/image/tiff/lzw"
)

// inflate decodes a stream, up to MaxStream bytes: what can be decoded of a damaged
// one, and nothing of one with a filter for images. number 0: it is not kept.
func (d *Document) inflate(number int, s stream) []byte {
	for i, kept := range d.streams {
		if number != 0 && kept.number == number {
			d.streams = append(append(d.streams[:i:i], d.streams[i+1:]...), kept)
			return kept.data
		}
	}
	data := d.decode(s)
	if number != 0 {
		size := len(data)
		for _, kept := range d.streams {
			size += len(kept.data)
		}
		for ; size > MaxStream; d.streams = d.streams[1:] {
			size -= len(d.streams[0].data)
			d.streams[0].data = nil
		}
		d.streams = append(d.streams, inflated{number, data})
	}
	return data
}

func (d *Document) decode(s stream) []byte {
	filters := d.array(s.dict["Filter"])
	if f, ok := d.resolve(s.dict["Filter"]).(name); ok {
		filters = []any{f}
	}
	if len(filters) > 4 {
		return nil
	}
	data := s.raw
	for _, f := range filters {
		f, _ := d.resolve(f).(name)
		if d.work < 0 {
			return nil
		}
		var r io.Reader
		switch f {
		case "FlateDecode", "Fl":
			z, err := zlib.NewReader(bytes.NewReader(data))
			if err != nil {
				return nil
			}
			r = z
		case "LZWDecode", "LZW":
			r = lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8)
		case "ASCII85Decode", "A85":
			if i := bytes.IndexByte(data, '~'); i >= 0 {
				data = data[:i]
			}
			r = ascii85.NewDecoder(bytes.NewReader(data))
		case "ASCIIHexDecode", "AHx":
			r = bytes.NewReader(unhex(data))
		default:
			return nil
		}
		// What stands before damage counts: the error is that of the damage.
		data, _ = io.ReadAll(io.LimitReader(r, MaxStream+1))
		if len(data) > MaxStream {
			data = data[:MaxStream]
			d.cut = true
		}
		d.spend(len(data))
	}
	return data
}
