package extract

import (
	"slices"
	"strings"
	"testing"
)

func linksOf(mime, url, body string) (refs []string, page Page) {
	page = Find(&Document{URL: url, MIME: mime, Body: []byte(body)}, Options{})
	for _, l := range page.Links {
		u, _, err := page.Base.Resolve(l.Ref)
		if err != nil {
			u = err.Error()
		}
		refs = append(refs, l.Kind+" "+u)
	}
	return refs, page
}

func TestListings(t *testing.T) {
	long := strings.Repeat("x", 3*listingLineMax)
	for name, c := range map[string]struct {
		body string
		want []string // below ftp://h.test/pub/
	}{
		"MLSD": {"type=cdir;modify=20240101000000; .\r\n type=dir;unique=1; sub dir\r\nType=file;Size=3; a%b;c?d#e.txt\r\nsize=3; plain\r\ntype=OS.unix=slink:/x; link\r\ntype=pdir; ..\r\n",
			[]string{"sub%20dir/", "a%25b%3Bc%3Fd%23e.txt", "plain", "link"}},
		"Unix": {"total 12\r\ndrwxr-xr-x   2 ftp  ftp  4096 Jan 31 12:00 sub\r\n-rw-r--r-- 1 ftp ftp 3 Feb  1  2020  two  spaces\r\n-rw-r--r-- 1 ftp 3 Mar 15 2020 no group\nlrwxrwxrwx 1 a b 3 Dec 1 10:00 here -> ../there\r\ncrw-r--r-- 1 a b 1,3 Dec 1 10:00 null\n",
			[]string{"sub/", "%20two%20%20spaces", "no%20group", "here"}},
		"Unix, a user named may": {"-rw-r--r-- 1 may jun 3 Jul 15 2020 x\n", []string{"x"}},
		"DOS":                    {"01-31-24  10:32AM       <DIR>          My Folder\r\n12-01-2023  01:02PM                12 a.txt\r\n", []string{"My%20Folder/", "a.txt"}},
		"hostile names": {"type=file; ../../etc/passwd\r\ntype=file; http://evil/\r\ntype=file; a:b\r\ntype=file; \x00\xff\r\ntype=file; \r\ntype=dir; .\r\n",
			[]string{"a%3Ab", "%00%FF"}},
		"long lines": {"type=file; " + long + "\r\n" + long + "\r\ntype=file; a\r\n" + long, []string{"a"}},
		"nonsense":   {"-\r\nd\r\nl Jan\r\n1-2-3\r\n1-2-3 4:5 <DIR>\r\n; x\r\n=; \r\n-rw 1 Jan 1\r\n-rw 1 Jan 1 2020\r\n\x00\r\n", nil},
		"empty":      {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := linksOf("text/x-ftp-listing", "ftp://h.test/pub/", c.body)
			var want []string
			for _, s := range c.want {
				want = append(want, "listing ftp://h.test/pub/"+s)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestMenus(t *testing.T) {
	const body = "iWelcome\tfake\t(NULL)\t0\r\n" +
		"0About  us\t/about us.txt\th.test\t70\r\n" +
		"1Other\t/x%y?\tother.test\t7070\t+\r\n" +
		"1Root\t\th.test\t70\r\n" +
		"hWeb\tURL:http://www.test/\th.test\t70\r\n" +
		"9Six\tfile\t::1\t70\r\n" +
		"7Search\t/find\th.test\t70\r\n8Telnet\t\th.test\t23\r\n+Mirror\t/m\tm.test\t70\r\n3Error\t\th.test\t70\r\n" +
		"1Bad port\t/x\th.test\t99999\r\n1Few fields\t/x\th.test\r\n\r\n" +
		"Isame host\t/p.png\th.test\t70\r\n" +
		".\r\n1Behind the end\t/z\th.test\t70\r\n"
	got, page := linksOf("application/gopher-menu", "gopher://h.test/", body)
	want := []string{
		"menu gopher://h.test/0/about%20us.txt", "menu gopher://other.test:7070/1/x%25y%3F", "menu gopher://h.test/1",
		"menu http://www.test/", "menu gopher://[::1]/9file", "menu invalid: a port above 65535", "menu gopher://h.test/I/p.png",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if page.Links[0].Text != "About us" {
		t.Errorf("text %q", page.Links[0].Text)
	}
}

func FuzzListing(f *testing.F) {
	f.Add("type=dir; a\r\n-rw 1 a b 3 Jan 1 2020 x\r\n01-31-24  10:32AM <DIR> y\r\n1a\tb\tc\t70\r\n")
	f.Fuzz(func(t *testing.T, body string) {
		refs, _ := linksOf("text/x-ftp-listing", "ftp://h.test/pub/", body)
		for _, r := range refs {
			if !strings.HasPrefix(r, "listing ftp://h.test/pub/") && !strings.HasPrefix(r, "listing too-long") {
				t.Fatalf("%q leads to %s", body, r)
			}
		}
		if n := len(refs); n > strings.Count(body, "\n")+1 {
			t.Fatalf("%d links in %q", n, body)
		}
		linksOf("application/gopher-menu", "gopher://h.test/", body)
	})
}
