package extract

import (
	"strings"

	"golang.org/x/net/html"

	"mercator/pkg/web/markup"
)

// treeHTML finds the links of a document by x/net/html's tree. False: the tree
// cannot be built, because elements are nested too deep for it.
func (f *finder) treeHTML(doc *Document) bool {
	text, enc := decode(doc, sortHTML)
	f.encoding = enc
	root, err := html.ParseWithOptions(text, html.ParseOptionEnableScripting(false))
	if err != nil {
		return false
	}
	var e markup.Element
	for n := root; n != nil; {
		if n.FirstChild != nil && f.enter(n, &e) {
			n = n.FirstChild
			continue
		} else if n.FirstChild == nil {
			f.enter(n, &e)
		}
		for {
			f.leave(n)
			if n == root {
				f.endAnchor()
				return true
			}
			if n.NextSibling != nil {
				n = n.NextSibling
				break
			}
			n = n.Parent
		}
	}
	return true
}

var spaces = map[string]markup.Space{"": markup.SpaceHTML, "svg": markup.SpaceSVG, "math": markup.SpaceMath}

// enter does for a node of the tree what its start tag or its text means, and
// reports whether its children count.
func (f *finder) enter(n *html.Node, e *markup.Element) bool {
	switch n.Type {
	case html.DocumentNode:
		return true
	case html.TextNode:
		if f.html.anchor >= 0 && !isStyled(n.Parent) {
			f.addText([]byte(n.Data))
		}
	case html.ElementNode:
		name := strings.ToLower(n.Data)
		*e = markup.Element{TagInfo: markup.LookupTag(markup.NameKey(name), []byte(name)), Space: spaces[n.Namespace], Plain: true}
		if e.Space == markup.SpaceHTML && e.Tag == markup.TagTemplate {
			return false
		}
		for _, a := range n.Attr {
			key := a.Key
			if a.Namespace != "" {
				key = a.Namespace + ":" + key
			}
			if id, ok := markup.LookupAttr([]byte(key)); ok && len(a.Val) <= markup.MaxToken {
				e.Has |= 1 << id
				e.Val[id] = []byte(a.Val)
			}
		}
		f.startTag(e)
		if isStyled(n) && e.Tag == markup.TagStyle {
			f.css([]byte(childText(n)))
		}
		raw := e.Traits&markup.IsRaw != 0 && e.Space == markup.SpaceHTML
		if raw && e.Tag == markup.TagStyle && n.FirstChild != nil {
			f.css([]byte(n.FirstChild.Data))
		}
		if raw && e.Tag == markup.TagScript && n.FirstChild != nil {
			f.scriptElement(scriptOf(e), []byte(n.FirstChild.Data))
		}
		return !raw
	}
	return false
}

// leave does what a node's end tag means.
func (f *finder) leave(n *html.Node) {
	if n.Type == html.ElementNode && n.Data == "form" && n.Namespace == "" {
		f.html.posts = false
	}
	if n.Type != html.ElementNode || f.html.anchor < 0 {
		return
	}
	info := markup.LookupTag(markup.NameKey(n.Data), []byte(n.Data))
	if info.Tag == markup.TagA {
		f.endAnchor()
	} else if n.Namespace == "" && info.Traits&markup.IsBlock != 0 && info.Traits&markup.IsVoid == 0 {
		f.html.label.space = true
	}
}

// isStyled reports whether an element is one of SVG with text for programs.
func isStyled(n *html.Node) bool {
	return n.Type == html.ElementNode && n.Namespace == "svg" && (n.Data == "style" || n.Data == "script")
}

func childText(n *html.Node) string {
	var b strings.Builder
	for c := range n.ChildNodes() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
