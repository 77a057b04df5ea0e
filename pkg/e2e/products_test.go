package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/base/needs"
)

// ld is a page with a script of JSON-LD.
func ld(json string) string {
	return `<!doctype html><title>Shop</title><script type="application/ld+json">` + json + `</script><p>Now only 5 EUR!`
}

// TestProducts: what module-products.py finds on pages as shops make them.
func TestProducts(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		needs.Skip(t, err)
	}
	lots := strings.Repeat(`{"@type":"Product","name":"P","offers":{"price":1}},`, 3)
	for _, c := range []struct{ name, page, want string }{
		{"nothing", `<p>$ 5`, `[]`},
		{"one offer", ld(`{"@context":"https://schema.org","@type":"Product","name":"Lamp","offers":{"@type":"Offer","price":19.90,"priceCurrency":"EUR"}}`),
			`[{"name":"Lamp","price":"19.90","currency":"EUR"}]`},
		{"offers in several currencies", ld(`{"@type":["Product","Thing"],"name":"Lamp","offers":[{"price":"19.90","priceCurrency":"EUR"},{"price":"21","priceCurrency":"USD"},{"price":"oops"}]}`),
			`[{"name":"Lamp","price":"19.90","currency":"EUR"},{"name":"Lamp","price":"21","currency":"USD"}]`},
		{"a range", ld(`{"@type":"Product","name":"Rug","offers":{"@type":"AggregateOffer","lowPrice":"80","highPrice":120.5,"priceCurrency":"usd","offerCount":3}}`),
			`[{"name":"Rug","low":"80","high":"120.5","currency":"USD"}]`},
		{"a range without bounds", ld(`{"@type":"Product","name":"Rug","offers":{"@type":"AggregateOffer","offers":[{"price":80},{"price":90}]}}`),
			`[{"name":"Rug","price":"80"},{"name":"Rug","price":"90"}]`},
		{"a specification", ld(`{"@type":"Product","name":"Rug","offers":{"priceCurrency":"CHF","priceSpecification":[{"price":"1'299.50"},{"price":2}]}}`),
			`[{"name":"Rug","price":"1299.50","currency":"CHF"}]`},
		{"a graph", ld(`{"@graph":[{"@type":"Organization","name":"Shop"},{"@type":"http://schema.org/Product","name":"Lamp","offers":[{"@id":"#o"}]},{"@id":"#o","@type":"Offer","price":5},{"@type":"Offer","price":6,"itemOffered":{"@type":"Product","name":"Bulb"}}]}`),
			`[{"name":"Lamp","price":"5"},{"name":"Bulb","price":"6"}]`},
		{"variants", ld(`{"@type":"ProductGroup","name":"Shirt","hasVariant":[{"@type":"Product","name":"Shirt S","offers":{"price":1}},{"@type":"Product","name":"Shirt M","offers":{"price":2}}]}`),
			`[{"name":"Shirt"},{"name":"Shirt S","price":"1"},{"name":"Shirt M","price":"2"}]`},
		{"a list of pages' data", ld(`[{"@type":"BreadcrumbList"},{"@type":"ItemList","itemListElement":[{"@type":"ListItem","item":{"@type":"Car","name":"Van"}}]}]`), `[{"name":"Van"}]`},
		{"a concert is none", ld(`{"@type":"Event","name":"Concert","offers":{"@type":"Offer","price":5}}`), `[]`},
		{"the same twice", ld(`[` + strings.TrimSuffix(lots, ",") + `]`), `[{"name":"P","price":"1"}]`},
		{"entities", ld(`{"@type":"Product","name":"Caf&eacute; &amp;\n <b>Bar</b> 5\" \ud800","offers":{"price":1}}`), `[{"name":"Café & Bar 5\" ` + "\ufffd" + `","price":"1"}]`},
		{"texts with a language", ld(`{"@type":"Product","name":[{"@value":"Lampe","@language":"de"}],"offers":{"price":1}}`), `[{"name":"Lampe","price":"1"}]`},
		{"a comma too many", ld(`{"@type":"Product","name":"A, }","offers":[{"price":"1",},],}`), `[{"name":"A, }","price":"1"}]`},
		{"line ends in texts", ld("{\"@type\":\"Product\",\"name\":\"A\nB\",\"offers\":{\"price\":1}};"), `[{"name":"A B","price":"1"}]`},
		{"in comments", ld("\n//<![CDATA[\n" + `{"@type":"Product","name":"A"}` + "\n//]]>"), `[{"name":"A"}]`},
		{"escaped", ld(`{&quot;@type&quot;:&quot;Product&quot;,&quot;name&quot;:&quot;A&quot;}`), `[{"name":"A"}]`},
		{"broken, then whole", ld(`{"@type":"Product","name":`) + ld(`{"@type":"Product","name":"B"}`), `[{"name":"B"}]`},
		{"deep", ld(strings.Repeat("[", 100_000)) + ld(`{"@type":"Product","name":"B"}`), `[{"name":"B"}]`},
		{"a text without an end", ld(strings.Repeat(`"\\`, 200_000)) + ld(`{"@type":"Product","name":"B"}`), `[{"name":"B"}]`},
		{"other values", ld(`[null,1,"x",{"@type":7,"name":{}},{"@type":"Product","name":"A","offers":[null,7,"x",{"price":null},{"price":{"x":1}},{"price":NaN},{"price":-1}]}]`), `[{"name":"A"}]`},
		{"microdata", `<div itemscope itemtype="https://schema.org/Product"><img itemprop=image src=x.png><h1 itemprop="name">Lamp &amp; <i>shade</i></h1>
			<div itemprop="offers" itemscope itemtype="http://schema.org/Offer"><span itemprop="price">1.299,00&nbsp;&euro;</span><link itemprop="availability" href="https://schema.org/InStock"></div><p itemprop=description>x</div>`,
			`[{"name":"Lamp & shade","price":"1299.00","currency":"EUR"}]`},
		{"microdata with machine values", `<ul><li itemscope itemtype="https://schema.org/Product"><b itemprop="name" content="A">a</b><div itemprop=offers itemscope itemtype="https://schema.org/AggregateOffer">
			<meta itemprop="lowPrice" content="5"><meta itemprop="highPrice" content="7.5"/><meta itemprop=priceCurrency content=GBP></div></li>
			<li itemscope itemtype="https://schema.org/Product"><b itemprop="name">B</b><span itemprop=offers itemscope itemtype="https://schema.org/Offer"><data itemprop=price value="8.00">£8</data></span></ul>`,
			`[{"name":"A","low":"5","high":"7.5","currency":"GBP"},{"name":"B","price":"8.00"}]`},
		{"both", ld(`{"@type":"Product","name":"A","offers":{"price":"5"}}`) + `<div itemscope itemtype="https://schema.org/Product"><b itemprop=name>A</b><p itemprop=offers itemscope itemtype="https://schema.org/Offer"><i itemprop=price>5</i></p></div>`,
			`[{"name":"A","price":"5"}]`},
		{"stray tags", `</p></div><div itemscope itemtype="https://schema.org/Product"></p><b itemprop=name>A</i></b></div></div><![x`, `[{"name":"A"}]`},
	} {
		t.Run(c.name, func(t *testing.T) { askProducts(t, python, c.page, c.want) })
	}
	for price, want := range map[string]string{
		"19,99": "19.99", "1,299": "1299", "1.299,00 €": "1299.00", "1,299.00": "1299.00", "1 299,5": "1299.5", "1\u00a0299": "1299", "1.299.000": "1299000", "0,999": "0.999",
		"USD 12": "12", "ab 5,- Euro": "5", "19.-": "19", "12.50 - 15": "12.50", "free": "",
	} {
		t.Run(price, func(t *testing.T) {
			found := `"name":"A"`
			if want != "" {
				found += fmt.Sprintf(`,"price":%q`, want)
			}
			if strings.HasPrefix(price, "USD") {
				found += `,"currency":"USD"`
			} else if strings.HasSuffix(price, "€") {
				found += `,"currency":"EUR"`
			}
			askProducts(t, python, ld(fmt.Sprintf(`{"@type":"Product","name":"A","offers":{"price":%q}}`, price)), "[{"+found+"}]")
		})
	}
	t.Run("bounds", func(t *testing.T) {
		var rows strings.Builder
		for i := range 1200 {
			fmt.Fprintf(&rows, `{"@type":"Product","name":"%d %s"},`, i, strings.Repeat("\U0001f600", 2000))
		}
		got := products(t, python, ld("["+rows.String()+"]")+strings.Repeat("<b itemscope itemprop=name>", 2000))
		if len(got) != 1000 || len(got[0]) > 4096 {
			t.Errorf("%d findings, the first of %d bytes", len(got), len(got[0]))
		}
	})
}

// products are the findings on a page.
func products(t *testing.T, python, page string) []json.RawMessage {
	t.Helper()
	cmd := exec.Command(python, "module-products.py")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("{\"charset\":\"\",\"length\":%d}\n%s", len(page), page))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must.OK(t, err)
	var found struct{ Product []json.RawMessage }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return found.Product
}

func askProducts(t *testing.T, python, page, want string) {
	t.Helper()
	type product struct{ Name, Price, Low, High, Currency string }
	list := func(b []byte) (p []product) {
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		return p
	}
	b, err := json.Marshal(products(t, python, page))
	must.OK(t, err)
	if bytes.Equal(b, []byte("null")) {
		b = []byte("[]")
	}
	if got, want := fmt.Sprintf("%+v", list(b)), fmt.Sprintf("%+v", list([]byte(want))); got != want {
		t.Errorf("found %s, want %s, of\n%.500s", got, want, page)
	}
}

// TestProductsPage runs each line of products.md, on a shop.
func TestProductsPage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		needs.Skip(t, err)
	}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := map[string]string{
			"/":     `<a href=lamp>l</a> <a href=rug>r</a>`,
			"/lamp": `<div itemscope itemtype="https://schema.org/Product"><b itemprop=name>Lamp &amp; shade</b><p itemprop=offers itemscope itemtype="https://schema.org/Offer"><i itemprop=price>1.299,00 &euro;</i></p></div>`,
			"/rug":  ld(`{"@type":"Product","name":"Rug","offers":{"@type":"AggregateOffer","lowPrice":"80","highPrice":"120.50","priceCurrency":"USD"}}`),
		}[r.URL.Path]
		if page == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(page))
	}))
	t.Cleanup(shop.Close)
	here, err := os.Getwd()
	must.OK(t, err)
	runSteps(t, pageSteps(t, "products.md"), t.TempDir(), polite(), "https://www.example.org/", shop.URL+"/", "/usr/local/share/mercator/pipelines", here)
}
