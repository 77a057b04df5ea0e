package store

import (
	"context"
	"testing"

	"mercator/formats/record"
	"mercator/pkg/durable"
)

func TestSmoke(t *testing.T) {
	for _, opt := range []struct {
		dir string
		o   Options
	}{{"/s/urls", Options{FS: durable.NewCrashFS()}}, {t.TempDir() + "/urls", Options{}}} {
		if err := Create(opt.dir, "urls", "1.0", map[string]string{"p": "1"}, opt.o); err != nil {
			t.Fatal(err)
		}
		if err := Create(opt.dir, "urls", "1.0", map[string]string{"p": "1"}, opt.o); err != nil {
			t.Fatal(err)
		}
		s, err := Open(opt.dir, "urls", "1.0", opt.o)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []string{"r1", "r2", "r3", "r4"} {
			tx, done, err := s.Begin(context.Background(), "new", r)
			if err != nil || done != nil {
				t.Fatal(done, err)
			}
			f, err := tx.Create("runs/", ".fps", "run")
			if err != nil {
				t.Fatal(err)
			}
			f.Write([]byte("hello"))
			o, err := tx.Create("out/", ".arrows.zst", "output")
			if err != nil {
				t.Fatal(err)
			}
			tx.Keep(o)
			if _, err := tx.Commit(1, "", record.Ledger{}); err != nil {
				t.Fatal(err)
			}
			if d, ok, err := s.Lookup("new", r); !ok || err != nil {
				t.Fatal(d, err)
			}
		}
		if _, _, err := s.Lookup("new", "r1"); err == nil {
			t.Fatal("r1 found")
		}
		m, err := s.Current()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", m)
	}
}
