package extract

import (
	"bytes"
	"hash/maphash"
	"strings"
	"sync"

	"golang.org/x/net/html"
)

// maxNodes bounds the nodes of a tree, as treeSize estimates them: some 12 MB.
const maxNodes = 120_000

// bigTree is held while a tree of more than smallTree nodes is there, so that
// threads do not have one each.
var bigTree sync.Mutex

const smallTree = maxNodes / 10

// treeHTML finds the links of a document by x/net/html's tree. False: the tree
// cannot be built, because elements are nested too deep for it.
func (f *finder) treeHTML(doc *Document, nodes int) bool {
	if nodes > smallTree {
		bigTree.Lock()
		defer bigTree.Unlock()
	}
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

// bytesANode is how many bytes of text take as much memory as a node.
const bytesANode = 32

// treeSize estimates, from above, how many nodes a document's tree has, with its text
// and attributes in nodes.
func (f *finder) treeSize(doc *Document) int {
	l := &f.html.lexer
	text, _ := decode(doc, sortHTML)
	l.open(text, doc.Body)
	defer l.close()
	l.texts = true
	t := treeGuess{nodes: len(doc.Body) / bytesANode}
	for t.nodes <= maxNodes {
		at := l.i
		switch l.next() {
		case tokenStart:
			if t.inSelect && (l.tagInfo.tag == tagNoscript || l.tagInfo.tag == tagTemplate) {
				t.giveUp(l, at) // is text there, or may be
			}
			t.start(&l.element, l.b[l.start:l.i])
			if l.cdata = len(t.foreign) > 0 || t.murky; l.traits&isRaw != 0 && len(t.foreign) == 0 {
				t.raw(l)
			}
		case tokenClose:
			t.end(&l.element)
			l.cdata = len(t.foreign) > 0 || t.murky
		case tokenText:
			if t.nodes += 2 + t.again; t.murky && bytes.HasSuffix(l.b[:l.i], []byte("]]>")) {
				t.giveUp(l, at)
			}
		case tokenEnd:
			if !l.fill() {
				return t.nodes
			}
		}
	}
	return t.nodes
}

// treeGuess follows what makes a tree larger than its document. A tag may make many
// nodes: each formatting element that is open may be made again, with its attributes,
// in each block (HTML section 13.2.4.3). And it must not be deceived about where tags
// are: those in SVG's title are some, those in HTML's are none.
type treeGuess struct {
	nodes      int
	again      int         // nodes that a tag or text may make of the open formatting elements
	anchor     int         // of them of the a element, of which one can be open
	formatting []formatted // the others
	special    int         // elements begun so far that a formatting element may outlive by its end tag
	inSelect   bool
	foreign    []openTag // as in flat
	murky      bool      // HTML and SVG are mixed: either may be open
}

type formatted struct {
	key, same     uint64 // same: hash of the whole tag
	cost, special int
}

// mostAlike is how many formatting elements with the same name and attributes are made
// again at once (HTML section 13.2.4.3: "Noah's Ark").
const mostAlike = 3

// giveUp reckons with the worst that a document may have from a place on, where tags
// may be other ones than they seem.
func (t *treeGuess) giveUp(l *lexer, at int) {
	rest := l.b[at:]
	tags := bytes.Count(rest, []byte("<"))
	t.nodes += int(min(int64(tags)*int64(2+t.again+tags+len(rest)/2), maxNodes+1))
	if !l.last {
		t.nodes = maxNodes + 1
	}
}

// start follows a start tag. tag is all of it as the document has it.
func (t *treeGuess) start(e *element, tag []byte) {
	t.nodes += 2 + t.again + e.count
	switch {
	case len(t.foreign) > 0:
		t.foreignStart(e)
	case e.tag == tagSVG || e.tag == tagMath:
		t.special++
		if t.murky = t.murky || e.slashed; !e.selfClosing && !t.murky {
			t.foreign = append(t.foreign, openTag{key: e.key, tag: e.tag})
		}
	}
	if e.traits&isSpecial != 0 && e.traits&isVoid == 0 {
		t.special++
	}
	t.inSelect = t.inSelect || e.tag == tagSelect
	if e.traits&isFormatting == 0 {
		return
	}
	cost := 1 + e.count/2 // an attribute has no children
	if e.tag == tagA {
		if cost > t.anchor {
			t.again += cost - t.anchor
			t.anchor = cost
		}
		return
	}
	same, alike := maphash.Bytes(linkSeed, tag), 0
	for i := range t.formatting {
		if t.formatting[i].same == same {
			alike++
		}
	}
	if alike < mostAlike {
		t.formatting = append(t.formatting, formatted{e.key, same, cost, t.special})
		t.again += cost
	}
}

func (t *treeGuess) end(e *element) {
	t.nodes += 2 + t.again
	if n := len(t.foreign); n > 0 {
		if t.foreign[n-1].key == e.key {
			t.foreign = t.foreign[:n-1]
		} else {
			t.mix()
		}
	}
	t.inSelect = t.inSelect && e.tag != tagSelect
	if e.traits&isFormatting == 0 {
		return
	}
	for i := len(t.formatting) - 1; i >= 0; i-- {
		if o := t.formatting[i]; o.key == e.key {
			if o.special == t.special { // else it may stay open
				t.again -= o.cost
				t.formatting = append(t.formatting[:i], t.formatting[i+1:]...)
			}
			return
		}
	}
}

// foreignStart follows a start tag within SVG or MathML.
func (t *treeGuess) foreignStart(e *element) {
	switch n := len(t.foreign); t.foreign[n-1].tag {
	case tagDesc, tagTitle, tagForeignObject, tagMI, tagMO, tagMN, tagMS, tagMText, tagAnnotationXML:
		t.mix()
	default:
		if e.traits&isBreakout != 0 || e.slashed || n == mostOpen {
			t.mix()
		} else if !e.selfClosing {
			t.foreign = append(t.foreign, openTag{key: e.key, tag: e.tag})
		}
	}
}

func (t *treeGuess) mix() { t.foreign, t.murky = nil, true }

// raw passes over the content of an element that is text in HTML. Where it may be
// markup it has to be the same as either.
func (t *treeGuess) raw(l *lexer) {
	for {
		at := l.i
		text, more, unsure := l.raw()
		if unsure || t.murky && (l.tagInfo.tag == tagPlaintext || bytes.IndexByte(text, '<') >= 0) {
			t.giveUp(l, at)
			return
		}
		if !more || !l.fill() {
			return
		}
	}
}
