package extract

// tag is an element's name; tagOther stands for all names without a meaning here.
type tag uint8

// trait is what a tag's name says about how it is read.
type trait uint16

const (
	isVoid     trait = 1 << iota // has neither content nor an end tag
	isRaw                        // its content is text up to its end tag
	isSpecial                    // "special" in HTML section 13.2.4.2
	isBlock                      // begins and ends a word of the text around it
	closesP                      // its start tag ends an open p element
	inHead                       // does not begin the body
	inTable                      // stands between the parts of a table without being moved out
	inSelect                     // stands in a select element without ending it
	isCell                       // part of a table's structure: dropped outside of tables
	isScope                      // hides the open elements around it from the tags within it
	mayEndA                      // may end an open a element, for what stands around that
	isBreakout                   // ends SVG and MathML
)

const (
	tagOther tag = iota
	tagA
	tagAnnotationXML
	tagApplet
	tagArea
	tagAudio
	tagBase
	tagBlockquote
	tagBody
	tagBr
	tagButton
	tagCaption
	tagCol
	tagColgroup
	tagDel
	tagDesc
	tagEmbed
	tagForeignObject
	tagForm
	tagFrame
	tagFrameset
	tagH1
	tagH2
	tagH3
	tagH4
	tagH5
	tagH6
	tagHead
	tagHTML
	tagIframe
	tagImage
	tagImg
	tagInput
	tagIns
	tagLink
	tagMath
	tagMeta
	tagMI
	tagMN
	tagMO
	tagMS
	tagMText
	tagNoscript
	tagObject
	tagP
	tagPlaintext
	tagQ
	tagScript
	tagSelect
	tagSource
	tagStyle
	tagSVG
	tagTable
	tagTbody
	tagTd
	tagTemplate
	tagTextarea
	tagTfoot
	tagTh
	tagThead
	tagTitle
	tagTr
	tagTrack
	tagVideo
	tagXmp
	tagFirstPlain // from here on names differ by their traits alone
)

var tagNames = [tagFirstPlain]struct {
	name   string
	traits trait
}{
	tagA:             {"a", 0},
	tagAnnotationXML: {"annotation-xml", 0},
	tagApplet:        {"applet", isSpecial | isScope},
	tagArea:          {"area", isVoid | isSpecial},
	tagAudio:         {"audio", 0},
	tagBase:          {"base", isVoid | isSpecial | inHead},
	tagBlockquote:    {"blockquote", isSpecial | isBlock | closesP | isBreakout},
	tagBody:          {"body", isSpecial | inHead | inTable | isBreakout},
	tagBr:            {"br", isVoid | isSpecial | isBlock | isBreakout},
	tagButton:        {"button", isSpecial},
	tagCaption:       {"caption", isSpecial | isBlock | inTable | isCell},
	tagCol:           {"col", isVoid | isSpecial | inTable | isCell},
	tagColgroup:      {"colgroup", isSpecial | inTable | isCell},
	tagDel:           {"del", 0},
	tagDesc:          {"desc", 0},
	tagEmbed:         {"embed", isVoid | isSpecial | isBreakout},
	tagForeignObject: {"foreignobject", 0},
	tagForm:          {"form", isSpecial | isBlock | closesP | inTable},
	tagFrame:         {"frame", isVoid | isSpecial | inTable},
	tagFrameset:      {"frameset", isSpecial},
	tagH1:            {"h1", isSpecial | isBlock | closesP | isBreakout},
	tagH2:            {"h2", isSpecial | isBlock | closesP | isBreakout},
	tagH3:            {"h3", isSpecial | isBlock | closesP | isBreakout},
	tagH4:            {"h4", isSpecial | isBlock | closesP | isBreakout},
	tagH5:            {"h5", isSpecial | isBlock | closesP | isBreakout},
	tagH6:            {"h6", isSpecial | isBlock | closesP | isBreakout},
	tagHead:          {"head", isSpecial | inHead | inTable | isBreakout},
	tagHTML:          {"html", isSpecial | inHead | inTable},
	tagIframe:        {"iframe", isRaw | isSpecial},
	tagImage:         {"image", isVoid},
	tagImg:           {"img", isVoid | isSpecial | isBreakout},
	tagInput:         {"input", isVoid | isSpecial},
	tagIns:           {"ins", 0},
	tagLink:          {"link", isVoid | isSpecial | inHead},
	tagMath:          {"math", 0},
	tagMeta:          {"meta", isVoid | isSpecial | inHead | isBreakout},
	tagMI:            {"mi", 0},
	tagMN:            {"mn", 0},
	tagMO:            {"mo", 0},
	tagMS:            {"ms", 0},
	tagMText:         {"mtext", 0},
	tagNoscript:      {"noscript", isSpecial | inHead},
	tagObject:        {"object", isSpecial | isScope},
	tagP:             {"p", isSpecial | isBlock | closesP | isBreakout},
	tagPlaintext:     {"plaintext", isRaw | isSpecial | isBlock | closesP},
	tagQ:             {"q", 0},
	tagScript:        {"script", isRaw | isSpecial | inHead | inTable | inSelect},
	tagSelect:        {"select", isSpecial | isScope | mayEndA},
	tagSource:        {"source", isVoid | isSpecial},
	tagStyle:         {"style", isRaw | isSpecial | inHead | inTable},
	tagSVG:           {"svg", 0},
	tagTable:         {"table", isSpecial | isBlock | inTable | isScope | mayEndA | isBreakout},
	tagTbody:         {"tbody", isSpecial | isBlock | inTable | isCell},
	tagTd:            {"td", isSpecial | isBlock | inTable | isCell},
	tagTemplate:      {"template", isSpecial | inHead | inTable | inSelect},
	tagTextarea:      {"textarea", isRaw | isSpecial},
	tagTfoot:         {"tfoot", isSpecial | isBlock | inTable | isCell},
	tagTh:            {"th", isSpecial | isBlock | inTable | isCell},
	tagThead:         {"thead", isSpecial | isBlock | inTable | isCell},
	tagTitle:         {"title", isRaw | isSpecial | inHead},
	tagTr:            {"tr", isSpecial | isBlock | inTable | isCell},
	tagTrack:         {"track", isVoid | isSpecial},
	tagVideo:         {"video", 0},
	tagXmp:           {"xmp", isRaw | isSpecial | isBlock | closesP},
}

// plainTags are the names that carry no links and matter by their traits alone.
var plainTags = []struct {
	names  []string
	traits trait
}{
	{[]string{"address", "article", "aside", "details", "dialog", "dir", "fieldset", "figcaption", "figure", "footer", "header", "hgroup", "main", "nav", "section", "summary"}, isSpecial | isBlock | closesP},
	{[]string{"search"}, isBlock | closesP},
	{[]string{"center", "div", "dl", "listing", "menu", "ol", "pre", "ul"}, isSpecial | isBlock | closesP | isBreakout},
	{[]string{"dd", "dt", "li"}, isSpecial | isBlock | closesP | mayEndA | isBreakout},
	{[]string{"hr"}, isVoid | isSpecial | isBlock | closesP | inSelect | isBreakout},
	{[]string{"legend"}, isBlock},
	{[]string{"optgroup", "option"}, isBlock | mayEndA | inSelect},
	{[]string{"nobr"}, mayEndA | isBreakout},
	{[]string{"marquee"}, isSpecial | isScope},
	{[]string{"noembed"}, isRaw | isSpecial},
	{[]string{"noframes"}, isRaw | isSpecial | inHead},
	{[]string{"basefont", "bgsound"}, isVoid | isSpecial | inHead},
	{[]string{"keygen", "param", "wbr"}, isVoid | isSpecial},
	{[]string{"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"}, isBreakout},
	{[]string{"ruby", "span", "sub", "sup", "var"}, isBreakout},
}

// tagInfo is what the lexer knows of one name.
type tagInfo struct {
	key    uint64 // of the name; see nameKey
	name   string
	tag    tag
	traits trait
}

// isPlain reports whether a tag without attributes that links come from means nothing
// but for lexer.inP, outside of anchors, tables, SVG and other places where any tag
// means something.
func (t *tagInfo) isPlain() bool {
	return (t.tag == tagOther || t.tag == tagP) && t.traits&(isRaw|isScope) == 0
}

// tagsByKey is an open-addressing hash table of all names.
var tagsByKey = func() (t [512]tagInfo) {
	put := func(name string, id tag, traits trait) {
		key := nameKey(name)
		i := tagSlot(key)
		for t[i].name != "" {
			i = (i + 1) % uint64(len(t))
		}
		t[i] = tagInfo{key, name, id, traits}
	}
	for id, n := range tagNames {
		if n.name != "" {
			put(n.name, tag(id), n.traits)
		}
	}
	for _, group := range plainTags {
		for _, name := range group.names {
			put(name, tagOther, group.traits)
		}
	}
	return t
}()

func tagSlot(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> 55 }

// nameKey folds a lower-case name into 64 bits, the first byte lowest. Names up to 8
// bytes, without NUL bytes, have a key of their own each.
func nameKey(name string) (key uint64) {
	for i := range len(name) {
		key ^= uint64(name[i]) << (i % 8 * 8)
	}
	return key
}

// other is what is known of a name without a meaning.
var other tagInfo

// lookupTag finds a name, as it is written in the document, by its key.
func lookupTag(key uint64, name []byte) *tagInfo {
	for i := tagSlot(key); ; i = (i + 1) % uint64(len(tagsByKey)) {
		t := &tagsByKey[i]
		if t.key == key && len(t.name) == len(name) && (len(name) <= 8 || hasFold(name, t.name)) {
			return t
		}
		if t.name == "" {
			return &other
		}
	}
}

// attr is an attribute that links depend on.
type attr uint8

const (
	attrAction attr = iota
	attrAlt
	attrArchive
	attrBackground
	attrCite
	attrCode
	attrCodebase
	attrContent
	attrData
	attrDataBackground
	attrDataBackgroundImage
	attrDataBg
	attrDataLazy
	attrDataLazySrc
	attrDataLazySrcset
	attrDataOriginal
	attrDataPoster
	attrDataSrc
	attrDataSrcset
	attrHref
	attrHreflang
	attrHTTPEquiv
	attrImageSrcset
	attrItemprop
	attrMethod
	attrName
	attrPoster
	attrProperty
	attrRel
	attrSrc
	attrSrcset
	attrStyle
	attrType
	attrXlinkHref
	attrs // their number
)

var attrNames = [attrs]string{
	"action", "alt", "archive", "background", "cite", "code", "codebase", "content", "data", "data-background",
	"data-background-image", "data-bg", "data-lazy", "data-lazy-src", "data-lazy-srcset", "data-original", "data-poster",
	"data-src", "data-srcset", "href", "hreflang", "http-equiv", "imagesrcset", "itemprop", "method", "name", "poster", "property",
	"rel", "src", "srcset", "style", "type", "xlink:href",
}

// lazy are the attributes in which scripts find what an element shall load later.
const lazy = 1<<attrDataBackground | 1<<attrDataBackgroundImage | 1<<attrDataBg | 1<<attrDataLazy | 1<<attrDataLazySrc |
	1<<attrDataLazySrcset | 1<<attrDataOriginal | 1<<attrDataPoster | 1<<attrDataSrc | 1<<attrDataSrcset

// attrLengths has, by first letter, a bit for each length of a wanted name: most
// attributes are ruled out by it.
var attrLengths = func() (t [256]uint32) {
	for _, n := range attrNames {
		t[n[0]] |= 1 << len(n)
		t[n[0]&^0x20] |= 1 << len(n)
	}
	return t
}()

// attrsByKey is a hash table of the wanted names, as tagsByKey is.
var attrsByKey = func() (t [128]attrInfo) {
	for a, name := range attrNames {
		key := nameKey(name)
		i := attrSlot(key)
		for t[i].name != "" {
			i = (i + 1) % uint64(len(t))
		}
		t[i] = attrInfo{key, name, attr(a)}
	}
	return t
}()

type attrInfo struct {
	key  uint64
	name string
	attr attr
}

func attrSlot(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> 57 }

// isWanted reports whether there is a wanted name of this first letter and length.
func isWanted(first byte, length int) bool { return attrLengths[first]>>uint(length)&1 != 0 }

// lookupAttr finds a wanted attribute by its name as it is written in the document.
func lookupAttr(name []byte) (attr, bool) {
	var key uint64
	for i, c := range name {
		key ^= uint64(attrByte[c]) << (i % 8 * 8)
	}
	for i := attrSlot(key); ; i = (i + 1) % uint64(len(attrsByKey)) {
		t := &attrsByKey[i]
		if t.key == key && len(t.name) == len(name) && (len(name) <= 8 || hasFold(name, t.name)) {
			return t.attr, true
		}
		if t.name == "" {
			return 0, false
		}
	}
}
