package record_test

import (
	"bytes"
	"fmt"
	"io"

	"mercator/formats/record"
)

func Example() {
	var file bytes.Buffer
	w, err := record.NewWriter[record.URL](&file, record.WriterOptions{Name: "urls.arrows.zst"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, url := range []string{"http://a.test/", "http://b.test/"} {
		if err := w.Write(&record.URL{URL: url, Host: url[len("http://") : len(url)-1]}); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := w.Commit(record.Ledger{}); err != nil { // without it every Reader refuses the stream
		fmt.Println(err)
	}
	r, err := record.NewReader[record.URL](&file, record.ReaderOptions{Name: "urls.arrows.zst"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var row record.URL
	for err = r.Read(&row); err == nil; err = r.Read(&row) {
		fmt.Println(row.Host, row.URL)
	}
	fmt.Println(err == io.EOF)
	// Output:
	// a.test http://a.test/
	// b.test http://b.test/
	// true
}
