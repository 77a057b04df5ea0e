// Package warc writes and reads WARC files, the archive format of web crawls
// (ISO 28500:2017, WARC/1.1). SPEC.md beside this file says which parts of the
// standard this project uses.
//
// # Invariants
//
//   - A record is one gzip member or one zstd frame, or stands bare. Members are
//     independent: a file is read from any record's offset.
//   - The same record encodes to the same header and the same record id, on any
//     machine and at any time: ids are made from content.
//   - A Reader hands out a record's block as a stream. Its memory is one header
//     and one decompressor, whatever a file claims.
//   - A record counts as whole only when its block, the two line ends after it
//     and the member's checksum have been read (Reader.Good).
//
// An Encoder is safe for many goroutines; a Writer and a Reader serve one.
//
// # Why so
//
// A member per record: a record is read by its offset and length alone, and a crash
// harms only the last one. gzip by default: every WARC reader has it; zstd takes a tenth
// less room and is read three times as fast, but few readers know it. No dictionary: a file
// is readable by itself. Fixed Huffman codes for short records: each page has two of a few
// hundred bytes, for which codes of their own cost four times the processor time and
// save a sixth.
package warc

import (
	"crypto/sha1"
	"encoding/base32"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"time"
)

// Values of WARC-Type. Reading accepts others too.
const (
	TypeInfo     = "warcinfo"
	TypeRequest  = "request"
	TypeResponse = "response"
	TypeRevisit  = "revisit"
	TypeMetadata = "metadata"
	TypeResource = "resource"
)

// Named fields, ISO 28500 section 5. Those that Record has members for are not here.
const (
	FieldConcurrentTo      = "WARC-Concurrent-To"
	FieldIPAddress         = "WARC-IP-Address"
	FieldPayloadDigest     = "WARC-Payload-Digest"
	FieldBlockDigest       = "WARC-Block-Digest"
	FieldTruncated         = "WARC-Truncated"
	FieldProtocol          = "WARC-Protocol"
	FieldRefersTo          = "WARC-Refers-To"
	FieldRefersToTargetURI = "WARC-Refers-To-Target-URI"
	FieldRefersToDate      = "WARC-Refers-To-Date"
	FieldRefersToFilename  = "WARC-Refers-To-Filename"    // not of the standard; Heritrix writes it too
	FieldRefersToOffset    = "WARC-Refers-To-File-Offset" // as WARC-Refers-To-Filename
	FieldProfile           = "WARC-Profile"
	FieldFilename          = "WARC-Filename"
)

// Values of WARC-Profile for revisit records (ISO 28500 section 6.7).
const (
	ProfileIdenticalPayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	ProfileNotModified      = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// Media types of blocks.
const (
	MediaRequest  = "application/http;msgtype=request"
	MediaResponse = "application/http;msgtype=response"
	MediaFields   = "application/warc-fields"
	MediaDNS      = "text/dns"                        // RFC 4027
	MediaControl  = "text/x-ftp-control-conversation" // commands and replies of FTP, as other crawlers name it
)

// Field is one named field, of a record's header or of an
// application/warc-fields block.
type Field struct{ Name, Value string }

// Original says where the payload of a revisit record of identical payload stands:
// the file, as the writer named it, and the offset of the record in it. ok is false
// for other records, and for revisits that do not say.
func (r *Record) Original() (file string, offset int64, ok bool) {
	if r.Type != TypeRevisit || r.Get(FieldProfile) != ProfileIdenticalPayload {
		return "", 0, false
	}
	file = r.Get(FieldRefersToFilename)
	offset, err := strconv.ParseInt(r.Get(FieldRefersToOffset), 10, 64)
	return file, offset, err == nil && offset >= 0 && file != ""
}

// Record is one WARC record: its header, and its block as a stream.
type Record struct {
	Type        string
	ID          string // a URI without angle brackets; "" when writing: Append makes one from content
	Date        time.Time
	TargetURI   string  // "" for warcinfo
	ContentType string  // media type of the block
	Fields      []Field // the other named fields, in order

	// Block holds Length bytes. To be written it must also be an io.Seeker,
	// because its digest stands in the header before it; nil is an empty block.
	// One with a method Whole() ([]byte, bool) that gives all bytes, and true, is not copied.
	// A Reader's Block is valid until the next call of Next.
	Block  io.Reader
	Length int64

	// Set by a Reader.
	Header int   // bytes of the header, the blank line included
	Offset int64 // of the record's first byte in the file, or of the member that it is in
	ARC    bool  // the record is of an ARC file
	Inside bool  // the record is not the first of its member, so that Offset leads to another record
}

// Get returns the value of the first field of that name, in any case, or "".
func (r *Record) Get(name string) string {
	for i := range r.Fields {
		if strings.EqualFold(r.Fields[i].Name, name) {
			return r.Fields[i].Value
		}
	}
	return ""
}

// IsReply reports whether the record has an HTTP reply: programs leave out its media type, or write others with http in it.
func (r *Record) IsReply() bool {
	return r.Type == TypeResponse && (r.ContentType == "" || strings.Contains(strings.ToLower(r.ContentType), "http"))
}

// Add appends a field, unless value is empty.
func (r *Record) Add(name, value string) {
	if value != "" {
		r.Fields = append(r.Fields, Field{name, value})
	}
}

// FormatSHA1 is the text form of a SHA-1 digest in a named field: "sha1:" and
// base32 in upper case.
func FormatSHA1(sum [sha1.Size]byte) string { return "sha1:" + Base32SHA1(sum) }

// Base32SHA1 is a SHA-1 digest as 32 characters of base32, upper case.
func Base32SHA1(sum [sha1.Size]byte) string { return base32.StdEncoding.EncodeToString(sum[:]) }

// parseSHA1 reads a digest as other writers put it: base32 in any case, or hex.
func parseSHA1(s string) (sum [sha1.Size]byte, ok bool) {
	algorithm, text, found := strings.Cut(s, ":")
	if !found || !strings.EqualFold(strings.ReplaceAll(algorithm, "-", ""), "sha1") {
		return sum, false
	}
	var b []byte
	var err error
	switch len(text) {
	case 32:
		b, err = base32.StdEncoding.DecodeString(strings.ToUpper(text))
	case 40:
		b, err = hex.DecodeString(text)
	}
	if err != nil || len(b) != len(sum) {
		return sum, false
	}
	return [sha1.Size]byte(b), true
}

// FormatFields makes the block of an application/warc-fields record. Line ends
// in values become spaces.
func FormatFields(fields []Field) []byte {
	var b []byte
	for _, f := range fields {
		b = appendField(b, f.Name, f.Value)
	}
	return b
}

// ParseFields reads the block of an application/warc-fields record: lines of
// "name: value", ended by CRLF or LF. Lines without a colon are left out.
func ParseFields(block []byte) []Field {
	var fields []Field
	for line := range strings.Lines(string(block)) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields = append(fields, Field{strings.TrimSpace(name), strings.TrimSpace(value)})
		}
	}
	return fields
}

// appendField writes "name: value CRLF". Control characters in a value, which
// would end the line or the header, become spaces.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, "\r\n"...)
}
