package filter_test

import (
	"context"
	"fmt"
	"strings"

	"mercator/pkg/web/filter"
)

func Example() {
	f, err := filter.Parse("site.rules", strings.NewReader("allow docs: domain example.org and not extension zip\ndefault deny\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	j := f.NewJudge()
	defer j.Close()
	urls := []filter.Candidate{
		{URL: "http://www.example.org/a.html", Host: "www.example.org"},
		{URL: "http://example.org/a.zip", Host: "example.org"},
	}
	verdicts := make([]filter.Verdict, len(urls))
	if err := j.URLs(context.Background(), urls, verdicts); err != nil {
		fmt.Println(err)
	}
	for i, v := range verdicts {
		fmt.Println(urls[i].URL, v.Allow, v.Reason())
	}
	// Output:
	// http://www.example.org/a.html true filter:docs
	// http://example.org/a.zip false filter:default
}
