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
var packings = []struct{ magic, name, command string }{
	{"\x1f\x8b", "gzip data", "gunzip"},
	{"\xfd7zX", "xz data", "unxz"},
	{"BZh", "bzip2 data", "bunzip2"},
}

// Packed says how a file is compressed that begins so, and how to unpack it; "" if it is not compressed.
func Packed(head, file string) (found, hint string) {
	for _, p := range packings {
		if strings.HasPrefix(head, p.magic) {
			if file == "" || file == "-" || strings.Contains(file, "standard input") {
				return p.name, "unpack it first: put " + Quote(p.command, "-c") + " | before this command"
			}
			return p.name, "unpack it first: " + Quote(p.command, "-k", file)
		}
	}
	return "", ""
}
