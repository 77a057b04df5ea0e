package driver

import "testing"

func TestBytesLeft(t *testing.T) {
	const G, M = 1 << 30, 1 << 20
	for _, test := range []struct {
		name        string
		until, have int64
		tasks       int
		want        int64
	}{
		{"at the begin", 10 * G, 0, 1, 10 * G},
		{"near the end", 16 * G, 16*G - 1, 1, G},
		{"of four shards", 8 * G, 4 * G, 4, G},
		{"more than that", 16 * M, 99 * M, 4, M},
		{"one byte", 1, 0, 1, M},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := bytesLeft(test.until, test.have, test.tasks); got != test.want {
				t.Errorf("%s: %d bytes, want %d", test.name, got, test.want)
			}
		})
	}
}
