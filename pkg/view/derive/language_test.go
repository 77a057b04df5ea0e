package derive

import (
	"strings"
	"testing"

	"github.com/abadojack/whatlanggo"
)

// said is the same sentence in languages of several scripts.
var said = map[string]string{
	"eng": "The crawler reads a list of addresses, asks each of the servers for its pages, and writes down what it was told by them.",
	"deu": "Der Sammler liest eine Liste von Adressen, fragt jeden der Server nach seinen Seiten und schreibt auf, was ihm gesagt wurde.",
	"fra": "Le robot lit une liste d'adresses, demande à chacun des serveurs ses pages et note ce qui lui a été répondu par ceux-ci.",
	"spa": "El robot lee una lista de direcciones, pide a cada uno de los servidores sus páginas y escribe lo que le han contestado.",
	"pol": "Robot czyta listę adresów, prosi każdy z serwerów o jego strony i zapisuje to, co zostało mu przez nie powiedziane.",
	"rus": "Робот читает список адресов, просит у каждого из серверов его страницы и записывает всё, что ему было сказано.",
	"ukr": "Робот читає перелік адрес, просить у кожного із серверів його сторінки й записує все, що йому було сказано ними.",
	"ell": "Το πρόγραμμα διαβάζει έναν κατάλογο διευθύνσεων και ζητά από κάθε διακομιστή τις σελίδες του.",
	"heb": "התוכנה קוראת רשימה של כתובות, מבקשת מכל אחד מהשרתים את הדפים שלו וכותבת את מה שנאמר לה.",
	"fas": "این برنامه فهرستی از نشانی\u200cها را می\u200cخواند، از هر یک از کارسازها صفحه\u200cهایش را می\u200cخواهد و هر چه را که به آن گفته شد می\u200cنویسد.",
	"amh": "ይህ ፕሮግራም የአድራሻዎችን ዝርዝር ያነባል፣ ከእያንዳንዱ አገልጋይ ገጾቹን ይጠይቃል፣ የተነገረውንም ሁሉ ይጽፋል።",
	"hin": "यह प्रोग्राम पतों की एक सूची पढ़ता है, हर सर्वर से उसके पन्ने माँगता है और जो कुछ उसे बताया गया है वह लिख लेता है।",
	"jpn": "このプログラムはアドレスの一覧を読み、それぞれのサーバーにページを求め、返ってきたものを書き留めます。",
	"kor": "이 프로그램은 주소 목록을 읽고 각 서버에 페이지를 요청하며 받은 것을 적어 둡니다.",
	"zho": "该程序读取地址列表，向每个服务器请求其页面，并写下所得到的内容。",
}

// For each script with languages that are told apart by trigrams, the profiles are those of whatlanggo: a release in which they have other names,
// or are of another kind, fails here.
func TestProfiles(t *testing.T) {
	const scripts, profile = 6, 300
	if n := len(trigrams()); n != scripts {
		t.Errorf("%d scripts, want %d", n, scripts)
	}
	for script, index := range trigrams() {
		if len(index.langs) < 2 {
			t.Errorf("%d languages of the script of %U", len(index.langs), script.R16[0].Lo)
		}
		for i, lang := range index.langs {
			if index.worst[i] != profile*apart {
				t.Errorf("%s has %d trigrams, want %d", lang.Iso6393(), index.worst[i]/apart, profile)
			}
		}
	}
}

// The index gives what whatlanggo gives, which reads a text once for each language.
func TestLanguage(t *testing.T) {
	for lang, text := range said {
		t.Run(lang, func(t *testing.T) {
			if got := language(strings.Repeat(text+"\n", 3)); got != lang {
				t.Errorf("%q, want %q", got, lang)
			}
			for other, more := range said {
				for _, text := range []string{text, text + more, "Menu | Search | 12:30\n" + strings.Repeat(text, 2) + more[:40] + "\xff", text[:20] + more, strings.ToUpper(text)} {
					want := whatlanggo.Detect(text)
					if got, sure := guess(text); sure != want.IsReliable() || sure && got != want.Lang {
						t.Errorf("with %s: %s, %v, whatlanggo says %s, %v: %q", other, got.Iso6393(), sure, want.Lang.Iso6393(), want.Confidence, text)
					}
				}
			}
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {"", ""},
		"figures":            {strings.Repeat("12:30 ", 1000), ""},
		"open in the first":  {strings.Repeat("a b c d e f 1 2 3\n", 260) + strings.Repeat(said["deu"], 60), "deu"},
		"behind what counts": {strings.Repeat("1234567 ", 4<<10) + said["deu"], ""},
		"cut in a letter":    {"x" + strings.Repeat(said["rus"], 60), "rus"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := language(c.text); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
