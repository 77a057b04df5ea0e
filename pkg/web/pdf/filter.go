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
	data := d.plain(s, filters)
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
		case "RunLengthDecode", "RL":
			r = bytes.NewReader(runLengths(data))
		case "Crypt":
			continue
		default:
			return nil
		}
		// Bytes before damage count, so the error is dropped.
		data, _ = io.ReadAll(io.LimitReader(r, MaxStream+1))
		if len(data) > MaxStream {
			data = data[:MaxStream]
			d.cut = true
		}
		d.spend(len(data))
	}
	return data
}

// plain is what the filters of a stream are applied to: of an encrypted one at most
// MaxStream bytes.
func (d *Document) plain(s stream, filters []any) []byte {
	if d.security == nil {
		return s.raw
	}
	method := d.security.streams
	for i, f := range filters {
		if d.resolve(f) != name("Crypt") {
			continue
		}
		params := d.resolve(s.dict["DecodeParms"])
		if a, ok := params.([]any); ok && i < len(a) {
			params = a[i]
		}
		n, _ := d.resolve(d.dict(params)["Name"]).(name)
		method = d.security.filters[n] // none: Identity
	}
	raw := s.raw[:min(len(s.raw), MaxStream)]
	d.cut = d.cut || len(raw) < len(s.raw)
	d.spend(len(raw))
	return d.security.decrypt(method, s.sealed, raw)
}

// runLengths decodes ISO 32000-1, 7.4.5, up to about MaxStream bytes.
func runLengths(b []byte) (out []byte) {
	for len(b) > 1 && len(out) <= MaxStream {
		n := int(b[0])
		switch {
		case n == 128:
			return out
		case n < 128:
			n = min(n+1, len(b)-1)
			out, b = append(out, b[1:1+n]...), b[1+n:]
		default:
			out, b = append(out, bytes.Repeat(b[1:2], 257-n)...), b[2:]
		}
	}
	return out
}
