package canon_test

import (
	"fmt"

	"mercator/pkg/web/canon"
)

func ExampleOptions_URL() {
	url, host, err := canon.Options{}.URL("HTTP://user@WWW.Example.ORG:80/a/../b?q=%7e#top")
	fmt.Println(url, host, err)
	// Output: http://www.example.org/b?q=~ www.example.org <nil>
}

func ExampleOptions_URLKey() {
	rules, err := canon.ParseRules([]string{"www"})
	if err != nil {
		fmt.Println(err)
		return
	}
	o := canon.Options{KeyRules: rules}
	fmt.Println(o.URLKey("www.example.org", "http://www.example.org/") == o.URLKey("example.org", "http://example.org/"))
	// Output: true
}
