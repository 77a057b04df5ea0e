package process

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/jpeg" // formats of image.DecodeConfig
	_ "image/png"
	"strconv"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

// imageModule reports format, width and height of images, and of a GIF its version,
// number of frames and of colours in its global table: what Mercator's GIF statistics
// were made from. The format is that of the bytes, whatever the media type. No pixel is
// decoded.
type imageModule struct{}

func (imageModule) Name() string { return "image" }
func (imageModule) Types() []string {
	return []string{"image/gif", "image/jpeg", "image/png", "image/webp", "image/avif", "image/heic", "image/bmp", "image/tiff"}
}
func (imageModule) New() Instance { return imageModule{} }

func (imageModule) Process(ctx context.Context, doc *Document, report func(key, value string)) error {
	if bytes.HasPrefix(doc.Body, []byte("GIF8")) {
		return gifStats(doc.Body, report)
	}
	if format, width, height, ok := isoImage(doc.Body); ok {
		report("format", format)
		report("width", strconv.FormatUint(uint64(width), 10))
		report("height", strconv.FormatUint(uint64(height), 10))
		return nil
	}
	c, format, err := image.DecodeConfig(bytes.NewReader(doc.Body))
	if err != nil {
		return err
	}
	report("format", format)
	report("width", strconv.Itoa(c.Width))
	report("height", strconv.Itoa(c.Height))
	return nil
}

// gifStats walks the blocks of a GIF (GIF89a section 17 ff.) without decoding pixels.
// Of one that is cut short it reports the frames that are there.
func gifStats(b []byte, report func(key, value string)) error {
	if len(b) < 13 {
		return fmt.Errorf("gif header of %d bytes, want 13", len(b))
	}
	colors := 0
	rest := b[13:]
	if b[10]&0x80 != 0 {
		colors = 2 << (b[10] & 7)
		rest = rest[min(len(rest), 3*colors):]
	}
	report("format", "gif")
	switch version := string(b[3:6]); version {
	case "87a", "89a":
		report("version", version)
	default:
		report("version", "other")
	}
	report("width", strconv.Itoa(int(b[6])|int(b[7])<<8))
	report("height", strconv.Itoa(int(b[8])|int(b[9])<<8))
	report("colors", strconv.Itoa(colors))
	frames := 0
	for len(rest) > 0 {
		switch rest[0] {
		case 0x2C: // image descriptor
			if len(rest) < 11 {
				rest = nil
				break
			}
			frames++
			table := 0
			if rest[9]&0x80 != 0 {
				table = 3 * (2 << (rest[9] & 7))
			}
			rest = skipBlocks(rest[min(len(rest), 11+table):])
		case 0x21: // extension
			rest = skipBlocks(rest[min(len(rest), 2):])
		default: // trailer, or not a GIF any more
			rest = nil
		}
	}
	report("frames", strconv.Itoa(frames))
	return nil
}

// skipBlocks skips data sub-blocks with their terminator.
func skipBlocks(b []byte) []byte {
	for len(b) > 0 {
		n := int(b[0])
		b = b[min(len(b), n+1):]
		if n == 0 {
			break
		}
	}
	return b
}

// isoImage reads the size of an AVIF or HEIC image: the largest "ispe" property
// (ISO 23008-12, 6.5.3), since those of tiles and thumbnails are smaller.
func isoImage(b []byte) (format string, width, height uint32, ok bool) {
	kind, first, rest := isoBox(b)
	if kind != "ftyp" || len(first) < 4 {
		return "", 0, 0, false
	}
	switch brand := string(first[:4]); brand {
	case "avif", "avis":
		format = "avif"
	case "heic", "heix", "mif1", "msf1":
		format = "heic"
	default:
		return "", 0, 0, false
	}
	inside := func(b []byte, want string) []byte {
		for len(b) > 0 {
			kind, body, rest := isoBox(b)
			if kind == want {
				return body
			}
			b = rest
		}
		return nil
	}
	meta := inside(rest, "meta")
	if len(meta) < 4 {
		return "", 0, 0, false
	}
	properties := inside(inside(meta[4:], "iprp"), "ipco")
	for len(properties) > 0 {
		var kind string
		var body []byte
		kind, body, properties = isoBox(properties)
		if kind != "ispe" || len(body) < 12 {
			continue
		}
		w, h := binary.BigEndian.Uint32(body[4:]), binary.BigEndian.Uint32(body[8:])
		if uint64(w)*uint64(h) > uint64(width)*uint64(height) {
			width, height = w, h
		}
	}
	return format, width, height, width > 0
}

// isoBox cuts the first box off (ISO 14496-12, 4.2). One that is not whole gives
// what there is.
func isoBox(b []byte) (kind string, body, rest []byte) {
	if len(b) < 8 {
		return "", nil, nil
	}
	size, head := uint64(binary.BigEndian.Uint32(b)), 8
	kind = string(b[4:8])
	switch {
	case size == 0:
		size = uint64(len(b))
	case size == 1 && len(b) >= 16:
		size, head = binary.BigEndian.Uint64(b[8:]), 16
	}
	size = min(max(size, uint64(head)), uint64(len(b)))
	return kind, b[head:size], b[size:]
}
