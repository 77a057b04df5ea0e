package driver

import (
	"errors"
	"io"
	"os"

	"mercator/formats/record"
)

// outcomeFiles are the files of what became of URLs, in the order of the rounds.
func (d *Driver) outcomeFiles() ([]string, error) {
	if d.plan.fromLinks {
		return d.Crawl.RoundFiles("fetched")
	}
	return d.Crawl.RoundFiles("marked")
}

// outcomes calls each for the rows of these files.
func (d *Driver) outcomes(each func(*record.Fetch) error) error {
	files, err := d.outcomeFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := eachRow(file, each); err != nil {
			return err
		}
	}
	return nil
}

func eachRow(file string, each func(*record.Fetch) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	rows, err := record.NewReader[record.Fetch](in, record.ReaderOptions{Name: file})
	if err != nil {
		return err
	}
	for {
		var row record.Fetch
		if err := rows.Read(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(&row); err != nil {
			return err
		}
	}
}
