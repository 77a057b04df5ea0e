package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// cryptMethod is how streams or strings of a file are encrypted.
type cryptMethod uint8

const (
	cryptNone   cryptMethod = iota
	cryptRC4                // V2
	cryptAES128             // AESV2
	cryptAES256             // AESV3
)

// security is the standard security handler (ISO 32000-2, 7.6.4), opened with an empty
// password, the user's or the owner's, as every viewer does before it asks for one.
type security struct {
	key              []byte
	filters          map[name]cryptMethod
	streams, strings cryptMethod
}

// sealed names the object that a string or stream stands in; the zero value is for
// what is never encrypted.
type sealed struct{ number, generation int }

// passwordPad fills up a password to 32 bytes (ISO 32000-1, 7.6.3.3, algorithm 2).
const passwordPad = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// unlock makes the key of an encrypted file. It reports false if neither password is
// empty, or if the file uses another handler.
func (d *Document) unlock() bool {
	v, ok := d.trailer["Encrypt"]
	if !ok {
		return true
	}
	e := d.dict(v)
	if e == nil || d.resolve(e["Filter"]) != name("Standard") {
		return false
	}
	s := &security{filters: map[name]cryptMethod{}, streams: cryptRC4, strings: cryptRC4}
	version, revision := d.int(e["V"]), d.int(e["R"])
	length := 5 // bytes
	switch version {
	case 1:
	case 2, 3:
		if bits := d.int(e["Length"]); bits >= 40 && bits <= 128 {
			length = bits / 8
		}
	case 4, 5:
		length = 16
		if bits := d.int(e["Length"]); bits >= 40 && bits < 128 {
			length = bits / 8
		}
		for key, v := range d.dict(e["CF"]) {
			switch d.resolve(d.dict(v)["CFM"]) {
			case name("V2"):
				s.filters[key] = cryptRC4
			case name("AESV2"):
				s.filters[key] = cryptAES128
			case name("AESV3"):
				s.filters[key] = cryptAES256
			}
		}
		filter := func(key name) cryptMethod {
			n, _ := d.resolve(e[key]).(name)
			return s.filters[n] // none: Identity
		}
		s.streams, s.strings = filter("StmF"), filter("StrF")
		if s.streams == cryptNone && s.strings == cryptNone {
			return true // attachments alone are encrypted
		}
	default:
		return false
	}
	t := lock{
		revision: revision, length: length, plainMetadata: d.resolve(e["EncryptMetadata"]) == false,
		o: d.bytes(e["O"]), u: d.bytes(e["U"]), oe: d.bytes(e["OE"]), ue: d.bytes(e["UE"]),
	}
	p, _ := d.resolve(e["P"]).(float64)
	t.permissions = uint32(int64(p))
	if ids := d.array(d.trailer["ID"]); len(ids) > 0 {
		t.id = d.bytes(ids[0])
	}
	if version == 5 {
		s.key = t.keyV5()
	} else {
		s.key = t.keyV4()
	}
	if s.key == nil {
		return false
	}
	d.security = s
	return true
}

// bytes is a string value.
func (d *Document) bytes(v any) []byte {
	s, _ := d.resolve(v).(text)
	return []byte(s)
}

// lock is the password data of an Encrypt dictionary.
type lock struct {
	revision, length int // length of the key, in bytes
	o, u, oe, ue     []byte
	permissions      uint32
	id               []byte // the first of the trailer's ID
	plainMetadata    bool
}

// keyV4 tries the empty password as the user's, then as the owner's, in files of
// revisions 2 to 4; nil if it is neither.
func (t *lock) keyV4() []byte {
	if len(t.o) < 32 || len(t.u) < 16 || t.revision < 2 || t.revision > 4 {
		return nil
	}
	if key := t.keyOfUser([]byte(passwordPad)); key != nil {
		return key
	}
	// The owner's password gives the user's (ISO 32000-1, 7.6.3.4, algorithm 7).
	sum := md5.Sum([]byte(passwordPad))
	key, user := sum[:], t.o[:32]
	if t.revision == 2 {
		return t.keyOfUser(rc4Of(key[:5], user))
	}
	for range 50 {
		next := md5.Sum(key)
		key = next[:]
	}
	for i := 19; i >= 0; i-- {
		user = rc4Of(turned(key[:t.length], byte(i)), user)
	}
	return t.keyOfUser(user)
}

// keyOfUser is algorithm 2 of ISO 32000-1, 7.6.3.3, for a padded password, with the
// check of algorithms 4 and 5; nil if the password is another.
func (t *lock) keyOfUser(password []byte) []byte {
	h := md5.New()
	h.Write(password)
	h.Write(t.o[:32])
	h.Write(binary.LittleEndian.AppendUint32(nil, t.permissions))
	h.Write(t.id)
	if t.revision == 4 && t.plainMetadata {
		h.Write([]byte("\xFF\xFF\xFF\xFF"))
	}
	key := h.Sum(nil)[:t.length]
	if t.revision == 2 {
		return keyIf(bytes.Equal(rc4Of(key, []byte(passwordPad)), t.u[:min(len(t.u), 32)]), key)
	}
	for range 50 {
		next := md5.Sum(key)
		key = next[:t.length]
	}
	check := md5.Sum(append([]byte(passwordPad), t.id...))
	proof := check[:]
	for i := range 20 {
		proof = rc4Of(turned(key, byte(i)), proof)
	}
	return keyIf(bytes.Equal(proof, t.u[:16]), key)
}

// turned is a key with each byte XORed.
func turned(key []byte, by byte) []byte {
	out := make([]byte, len(key))
	for i := range key {
		out[i] = key[i] ^ by
	}
	return out
}

// keyV5 is algorithm 2.A of ISO 32000-2, 7.6.4.3.3, for revision 6 and Adobe's revision
// 5, with the empty password as the user's, then as the owner's; nil if it is neither.
func (t *lock) keyV5() []byte {
	if len(t.u) < 48 || t.revision != 5 && t.revision != 6 {
		return nil
	}
	if key := t.keyOf(t.u, t.ue, nil); key != nil {
		return key
	}
	return t.keyOf(t.o, t.oe, t.u[:48])
}

// keyOf opens the key that one of both passwords encrypts: proof is its U or O, and user
// what O also depends on.
func (t *lock) keyOf(proof, encrypted, user []byte) []byte {
	if len(proof) < 48 || len(encrypted) < 32 {
		return nil
	}
	hash := func(salt []byte) []byte {
		sum := sha256.Sum256(append(append([]byte(nil), salt...), user...))
		if t.revision == 5 {
			return sum[:]
		}
		return hardened(sum[:], user)
	}
	if !bytes.Equal(hash(proof[32:40]), proof[:32]) {
		return nil
	}
	block, err := aes.NewCipher(hash(proof[40:48]))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, encrypted[:32])
	return key
}

// hardened is algorithm 2.B of ISO 32000-2, 7.6.4.3.4, for the empty password. It ends
// after at most 288 rounds, since the last byte of a round is at most 255.
func hardened(k, user []byte) []byte {
	for round := 1; ; round++ {
		block, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		e := bytes.Repeat(append(append([]byte(nil), k...), user...), 64)
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(e, e)
		rest := 0
		for _, c := range e[:16] {
			rest += int(c)
		}
		switch rest % 3 {
		case 0:
			sum := sha256.Sum256(e)
			k = sum[:]
		case 1:
			sum := sha512.Sum384(e)
			k = sum[:]
		default:
			sum := sha512.Sum512(e)
			k = sum[:]
		}
		if round >= 64 && int(e[len(e)-1]) <= round-32 {
			return k[:32]
		}
	}
}

func keyIf(ok bool, key []byte) []byte {
	if !ok {
		return nil
	}
	return key
}

func rc4Of(key, b []byte) []byte {
	c, err := rc4.NewCipher(key)
	if err != nil {
		return nil
	}
	out := make([]byte, len(b))
	c.XORKeyStream(out, b)
	return out
}

// decrypt returns the plain bytes of a string or stream of an object (ISO 32000-2,
// 7.6.3). What no longer fits the cipher is left out.
func (s *security) decrypt(method cryptMethod, of sealed, b []byte) []byte {
	if method == cryptNone || of.number == 0 {
		return b
	}
	key := s.key
	if method != cryptAES256 {
		n, g := of.number, of.generation
		key = append(append([]byte(nil), key...), byte(n), byte(n>>8), byte(n>>16), byte(g), byte(g>>8))
		if method == cryptAES128 {
			key = append(key, "sAlT"...)
		}
		sum := md5.Sum(key)
		key = sum[:min(len(s.key)+5, 16)]
	}
	if method == cryptRC4 {
		return rc4Of(key, b)
	}
	block, err := aes.NewCipher(key)
	if err != nil || len(b) < 2*aes.BlockSize {
		return nil
	}
	iv, b := b[:aes.BlockSize], b[aes.BlockSize:]
	out := make([]byte, len(b)/aes.BlockSize*aes.BlockSize)
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, b[:len(out)])
	if pad := int(out[len(out)-1]); len(out) == len(b) && pad >= 1 && pad <= aes.BlockSize {
		out = out[:len(out)-pad]
	}
	return out
}
