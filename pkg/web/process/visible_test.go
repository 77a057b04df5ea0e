package process

import (
	"strings"
	"testing"
)

// What a reader sees of HTML, where tags mean something else than they say.
func TestVisible(t *testing.T) {
	const xhtml = "application/xhtml+xml"
	for _, tt := range []struct{ name, mime, body, want string }{
		{"empty title of SVG", "", "a<svg><title/><path/></svg><p>after", "a\nafter"},
		{"title of SVG", "", "a<svg><title>no</title></svg><p>after", "a\nafter"},
		{"title of SVG that is open", "", "a<svg><title>no</svg><p>after", "a\nafter"},
		{"style and script of SVG", "", "a<svg><style/><script/><style>no</style><script>no</script></svg><p>after", "a\nafter"},
		{"style of MathML", "", "<math><style/><mi>x</mi></math><p>after", "x\nafter"},
		{"text of SVG", "", "<svg>no<g>no<text>one <tspan>two</tspan></text><text>three</text></g></svg>after", "one two\nthree\nafter"},
		{"HTML in SVG", "", "<svg><foreignObject><p>one<p>two</p></foreignObject>no</svg>after", "one\ntwo\nafter"},
		{"description of SVG", "", "<svg><desc><p>no</p></desc></svg>after", "after"},
		{"paragraph that ends SVG", "", "<svg><path><p>one</p>two", "one\ntwo"},
		{"paragraph that ends MathML", "", "<math><mi>x</mi><p>one</p>two", "x\none\ntwo"},
		{"font that ends SVG", "", "<svg><font>no<font color=red>one", "one"},
		{"annotations of MathML", "", "<math><semantics><mi>x</mi><annotation>no</annotation><annotation-xml encoding=text/html><p>no</p></annotation-xml></semantics></math>after", "x\nafter"},
		{"section of CDATA", "", "<svg><text><![CDATA[a < &amp;]]></text></svg>b", "a < &amp;\nb"},
		{"no section of CDATA in HTML", "", "a<![CDATA[no>b]]>", "ab]]>"},
		{"SVG that an end tag around it closes", "", "<div><svg><path></div>one", "one"},
		{"list of options", "", "<datalist><option>no</option><option>no</datalist>after", "after"},
		{"list of options that is open", "", "<datalist><option value=no>no<p>after</p>more", "after\nmore"},
		{"list of options in an open cell", "", "<table><tr><td><datalist><option>no<td>after</table>", "after"},
		{"object", "", "<object data=x.swf>instead</object>after", "insteadafter"},
		{"object that is open", "", "<div><object></div><p>after", "after"},
		{"template", "", "a<template>no<svg><title/></svg></template>b", "ab"},
		{"template in HTML in SVG", "", "<svg><foreignObject>a<template>no</template>b</foreignObject></svg>", "ab"},
		{"select that is open", "", "<select><option>a<option>b<p>c", "a\nb\nc"},
		{"noscript", "", "<head><noscript><style>no</style></noscript></head><noscript><p>one</p></noscript>two", "one\ntwo"},
		{"textarea that is open", "", "a<textarea>b &amp; <b>c", "a\nb & <b>c"},
		{"xmp", "", "a<xmp><b>&amp;</xmp>b", "a\n<b>&amp;\nb"},
		{"plaintext", "", "a<plaintext><b>&amp;</plaintext>b", "a\n<b>&amp;</plaintext>b"},
		{"frames that are open", "", "a<iframe>no</b>", "a"},
		{"noframes and noembed", "", "a<noframes><p>no</noframes><noembed>no</noembed>b", "ab"},
		{"script that closes itself is open", "", "a<script src=x />no</script>b", "ab"},
		{"script with a script in a comment", "", "a<script><!--<script>no</script>no--></script>b", "ab"},
		{"XHTML: elements that close themselves", xhtml, "<html><head><script src='x'/><style/><title/></head><body><iframe/><textarea/>one<p/>two<svg><title/><text/></svg>three", "one\ntwo\nthree"},
		{"XHTML: template and list that close themselves", xhtml, "<template/>one<datalist/>two", "onetwo"},
		{"XHTML: title with a section of CDATA", xhtml, "<title>a &amp; <![CDATA[<b> &amp;]]><!-- no --></title>after", "a & <b> &amp;\nafter"},
		{"XHTML: script with its end tag in a section of CDATA", xhtml, "<script><![CDATA[ '</script>' ]]></script>after", "after"},
		{"XHTML: paragraph does not end SVG", xhtml, "<svg><p>no</p></svg>after", "after"},
		{"XHTML: section of CDATA", xhtml, "<p><![CDATA[a < b]]></p>", "a < b"},
		{"byte order mark", "", "\uFEFFa\uFEFFb &#xFEFF; c", "ab c"},
		{"plain text with byte order marks", typePlain, "\uFEFFa\n\uFEFFb", "a\nb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mime == "" {
				tt.mime = "text/html"
			}
			got, err := Text(&Document{MIME: tt.mime, Charset: "utf-8", Body: []byte(tt.body)}, 0)
			if err != nil || got != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// Modules see no elements in text, and no title that is a tool tip.
func TestModulesReadForeignContent(t *testing.T) {
	const body = "<svg><title>tip</title><title/></svg><title>T</title><form action=/f><input name=q></form><svg><title/></svg><form action=/g><textarea name=t></textarea></form>"
	for _, tt := range []struct {
		module Module
		want   string
	}{
		{pageModule{}, "title=T\n"},
		{formsModule{}, `form={"action":"/f","method":"get","fields":[{"name":"q","type":"text"}]}` + "\n" + `form={"action":"/g","method":"get","fields":[{"name":"t","type":"textarea"}]}` + "\n"},
		{tagsModule{}, "form=2\ninput=1\nsvg=2\ntextarea=1\ntitle=4\n"},
	} {
		t.Run(tt.module.Name(), func(t *testing.T) {
			var b strings.Builder
			err := tt.module.New().Process(t.Context(), &Document{MIME: "text/html", Charset: "utf-8", Body: []byte(body)}, func(key, value string) {
				b.WriteString(key + "=" + value + "\n")
			})
			if err != nil || b.String() != tt.want {
				t.Errorf("%s, %v, want %s", b.String(), err, tt.want)
			}
		})
	}
}
