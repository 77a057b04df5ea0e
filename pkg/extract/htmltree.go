package extract

import (
	"strings"

	"golang.org/x/net/html"
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
	var e element
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

var spaces = map[string]space{"": spaceHTML, "svg": spaceSVG, "math": spaceMath}

// enter does for a node of the tree what its start tag or its text means, and
// reports whether its children count.
func (f *finder) enter(n *html.Node, e *element) bool {
	switch n.Type {
	case html.DocumentNode:
		return true
	case html.TextNode:
		if f.html.anchor >= 0 {
			f.addText([]byte(n.Data))
		}
	case html.ElementNode:
		name := strings.ToLower(n.Data)
		*e = element{tagInfo: lookupTag(nameKey(name), []byte(name)), space: spaces[n.Namespace], plain: true, buf: e.buf[:0]}
		if e.space == spaceHTML && e.tag == tagTemplate {
			return false
		}
		for _, a := range n.Attr {
			key := a.Key
			if a.Namespace != "" {
				key = a.Namespace + ":" + key
			}
			if id, ok := lookupAttr([]byte(key)); ok && len(a.Val) <= maxToken {
				e.has |= 1 << id
				e.val[id] = []byte(a.Val)
			}
		}
		f.startTag(e)
		raw := e.traits&isRaw != 0 && e.space == spaceHTML
		if raw && e.tag == tagStyle && n.FirstChild != nil {
			f.css([]byte(n.FirstChild.Data))
		}
		return !raw
	}
	return false
}

// leave does what a node's end tag means.
func (f *finder) leave(n *html.Node) {
	if n.Type != html.ElementNode || f.html.anchor < 0 {
		return
	}
	info := lookupTag(nameKey(n.Data), []byte(n.Data))
	if info.tag == tagA {
		f.endAnchor()
	} else if n.Namespace == "" && info.traits&isBlock != 0 && info.traits&isVoid == 0 {
		f.html.label.space = true
	}
}
