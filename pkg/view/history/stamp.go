package history

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// Stamp tells a record file from others that had its name before mckpt restore. What is derived from record files keeps the stamps of those
// that it has read.
type Stamp struct {
	Path  string `json:"path"` // relative to the crawl's folder
	Bytes int64  `json:"bytes"`
	End   string `json:"end"` // of its SHA-256 over its last 4 KiB, where the hash of its rows is
}

const tailBytes = 4096

// StampOf is the stamp of a record file of the crawl in a folder.
func StampOf(path, crawl string) (s Stamp, err error) {
	in, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return s, err
	}
	tail := make([]byte, min(info.Size(), tailBytes))
	if _, err := in.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return s, err
	}
	sum := sha256.Sum256(tail)
	if s.Path, err = filepath.Rel(crawl, path); err != nil {
		s.Path = path
	}
	s.Bytes, s.End = info.Size(), hex.EncodeToString(sum[:8])
	return s, nil
}
