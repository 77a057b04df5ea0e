package fault

import "strings"

// Quote joins words into a line that a shell takes apart into the same words.
func Quote(words ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+"
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.Trim(w, plain) != "" {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// packings are compressions that people give where text or records are read, and what unpacks them.
var packings = []struct{ magic, name, command, ending string }{
	{"\x1f\x8b", "gzip data", "gunzip", ".gz"},
	{"\xfd7zX", "xz data", "unxz", ".xz"},
	{"BZh", "bzip2 data", "bunzip2", ".bz2"},
}

// Packed says how a file is compressed that begins so, with four bytes or more, and how to unpack it; "" if it is not compressed.
func Packed(head, file string) (found, hint string) {
	for _, p := range packings {
		rest, is := strings.CutPrefix(head, p.magic)
		switch {
		case !is, p.command == "bunzip2" && (rest == "" || !strings.Contains("123456789", rest[:1]) || !strings.HasPrefix("1AY", rest[1:min(len(rest), 4)])): // a line may begin with BZh
		case file == "" || file == "-" || strings.Contains(file, "standard input"):
			return p.name, "unpack it first: put " + Quote(p.command, "-c") + " | before this command"
		case !strings.HasSuffix(file, p.ending): // else the command refuses it
			return p.name, "unpack it first: " + p.command + " < " + Quote(file) + " > unpacked"
		default:
			return p.name, "unpack it first: " + Quote(p.command, "-k", file)
		}
	}
	return "", ""
}
