package markup

// Tag is an element's name; TagOther stands for all names without a meaning here.
type Tag uint8

// Trait is a property of a tag's name that affects how it is read.
type Trait uint16

const (
	IsVoid     Trait = 1 << iota // has neither content nor an end tag
	IsRaw                        // its content is text up to its end tag
	IsSpecial                    // "special" in HTML section 13.2.4.2
	IsBlock                      // begins and ends a word of the text around it
	ClosesP                      // its start tag ends an open p element
	InHead                       // does not begin the body
	InTable                      // stands between the parts of a table without being moved out
	InSelect                     // stands in a select element without ending it
	IsCell                       // part of a table's structure: dropped outside of tables
	IsScope                      // hides the open elements around it from the tags within it
	MayEndA                      // may end an open a element, for what stands around that
	IsBreakout                   // ends SVG and MathML
	isPlaced                     // changes what the tags behind it mean: see Reader
	isQuiet                      // means something in SVG, MathML or to text alone
)

const (
	TagOther Tag = iota
	TagA
	TagAnnotation
	TagAnnotationXML
	TagApplet
	TagArea
	TagAudio
	TagBase
	TagBlockquote
	TagBody
	TagBr
	TagButton
	TagCaption
	TagCol
	TagColgroup
	TagDatalist
	TagDel
	TagDesc
	TagEmbed
	TagFont
	TagForeignObject
	TagForm
	TagFrame
	TagFrameset
	TagH1
	TagH2
	TagH3
	TagH4
	TagH5
	TagH6
	TagHead
	TagHTML
	TagIframe
	TagImage
	TagImg
	TagInput
	TagIns
	TagLink
	TagMalignmark
	TagMath
	TagMenuitem
	TagMeta
	TagMetadata
	TagMglyph
	TagMI
	TagMN
	TagMO
	TagMS
	TagMText
	TagNoembed
	TagNoframes
	TagNoscript
	TagObject
	TagP
	TagPlaintext
	TagQ
	TagScript
	TagSelect
	TagSource
	TagStyle
	TagSVG
	TagTable
	TagTbody
	TagTd
	TagTemplate
	TagText
	TagTextarea
	TagTfoot
	TagTh
	TagThead
	TagTitle
	TagTr
	TagTrack
	TagVideo
	TagXmp
	tagFirstPlain // from here on names differ by their traits alone
)

var tagNames = [tagFirstPlain]struct {
	name   string
	traits Trait
}{
	TagA:             {"a", 0},
	TagAnnotation:    {"annotation", isQuiet},
	TagAnnotationXML: {"annotation-xml", 0},
	TagApplet:        {"applet", IsSpecial | IsScope},
	TagArea:          {"area", IsVoid | IsSpecial},
	TagAudio:         {"audio", 0},
	TagBase:          {"base", IsVoid | IsSpecial | InHead},
	TagBlockquote:    {"blockquote", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagBody:          {"body", IsSpecial | InHead | InTable | IsBreakout},
	TagBr:            {"br", IsVoid | IsSpecial | IsBlock | IsBreakout},
	TagButton:        {"button", IsSpecial},
	TagCaption:       {"caption", IsSpecial | IsBlock | InTable | IsCell},
	TagCol:           {"col", IsVoid | IsSpecial | InTable | IsCell},
	TagColgroup:      {"colgroup", IsSpecial | InTable | IsCell},
	TagDatalist:      {"datalist", isQuiet},
	TagDel:           {"del", 0},
	TagDesc:          {"desc", 0},
	TagEmbed:         {"embed", IsVoid | IsSpecial | IsBreakout},
	TagFont:          {"font", IsBreakout | isQuiet},
	TagForeignObject: {"foreignobject", 0},
	TagForm:          {"form", IsSpecial | IsBlock | ClosesP | InTable},
	TagFrame:         {"frame", IsVoid | IsSpecial | InTable},
	TagFrameset:      {"frameset", IsSpecial},
	TagH1:            {"h1", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagH2:            {"h2", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagH3:            {"h3", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagH4:            {"h4", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagH5:            {"h5", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagH6:            {"h6", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagHead:          {"head", IsSpecial | InHead | InTable | IsBreakout},
	TagHTML:          {"html", IsSpecial | InHead | InTable},
	TagIframe:        {"iframe", IsRaw | IsSpecial},
	TagImage:         {"image", IsVoid},
	TagImg:           {"img", IsVoid | IsSpecial | IsBreakout},
	TagInput:         {"input", IsVoid | IsSpecial},
	TagIns:           {"ins", 0},
	TagLink:          {"link", IsVoid | IsSpecial | InHead},
	TagMalignmark:    {"malignmark", isQuiet},
	TagMath:          {"math", isPlaced},
	TagMeta:          {"meta", IsVoid | IsSpecial | InHead | IsBreakout},
	TagMenuitem:      {"menuitem", isQuiet},
	TagMetadata:      {"metadata", isQuiet},
	TagMglyph:        {"mglyph", isQuiet},
	TagMI:            {"mi", 0},
	TagMN:            {"mn", 0},
	TagMO:            {"mo", 0},
	TagMS:            {"ms", 0},
	TagMText:         {"mtext", 0},
	TagNoembed:       {"noembed", IsRaw | IsSpecial},
	TagNoframes:      {"noframes", IsRaw | IsSpecial | InHead},
	TagNoscript:      {"noscript", IsSpecial | InHead},
	TagObject:        {"object", IsSpecial | IsScope},
	TagP:             {"p", IsSpecial | IsBlock | ClosesP | IsBreakout},
	TagPlaintext:     {"plaintext", IsRaw | IsSpecial | IsBlock | ClosesP},
	TagQ:             {"q", 0},
	TagScript:        {"script", IsRaw | IsSpecial | InHead | InTable | InSelect},
	TagSelect:        {"select", IsSpecial | IsScope | MayEndA},
	TagSource:        {"source", IsVoid | IsSpecial},
	TagStyle:         {"style", IsRaw | IsSpecial | InHead | InTable},
	TagSVG:           {"svg", isPlaced},
	TagTable:         {"table", IsSpecial | IsBlock | InTable | IsScope | MayEndA | IsBreakout},
	TagTbody:         {"tbody", IsSpecial | IsBlock | InTable | IsCell},
	TagTd:            {"td", IsSpecial | IsBlock | InTable | IsCell},
	TagTemplate:      {"template", isPlaced | IsSpecial | InHead | InTable | InSelect},
	TagText:          {"text", isQuiet},
	TagTextarea:      {"textarea", IsRaw | IsSpecial},
	TagTfoot:         {"tfoot", IsSpecial | IsBlock | InTable | IsCell},
	TagTh:            {"th", IsSpecial | IsBlock | InTable | IsCell},
	TagThead:         {"thead", IsSpecial | IsBlock | InTable | IsCell},
	TagTitle:         {"title", IsRaw | IsSpecial | InHead},
	TagTr:            {"tr", IsSpecial | IsBlock | InTable | IsCell},
	TagTrack:         {"track", IsVoid | IsSpecial},
	TagVideo:         {"video", 0},
	TagXmp:           {"xmp", IsRaw | IsSpecial | IsBlock | ClosesP},
}

// plainTags are the names that carry no links and matter by their traits alone.
var plainTags = []struct {
	names  []string
	traits Trait
}{
	{[]string{"address", "article", "aside", "details", "dialog", "dir", "fieldset", "figcaption", "figure", "footer", "header", "hgroup", "main", "nav", "section", "summary"}, IsSpecial | IsBlock | ClosesP},
	{[]string{"search"}, IsBlock | ClosesP},
	{[]string{"center", "div", "dl", "listing", "menu", "ol", "pre", "ul"}, IsSpecial | IsBlock | ClosesP | IsBreakout},
	{[]string{"dd", "dt", "li"}, IsSpecial | IsBlock | ClosesP | MayEndA | IsBreakout},
	{[]string{"hr"}, IsVoid | IsSpecial | IsBlock | ClosesP | InSelect | IsBreakout},
	{[]string{"legend"}, IsBlock},
	{[]string{"optgroup", "option"}, IsBlock | MayEndA | InSelect},
	{[]string{"nobr"}, MayEndA | IsBreakout},
	{[]string{"marquee"}, IsSpecial | IsScope},
	{[]string{"basefont", "bgsound"}, IsVoid | IsSpecial | InHead},
	{[]string{"keygen", "param", "wbr"}, IsVoid | IsSpecial},
	{[]string{"b", "big", "code", "em", "i", "s", "small", "strike", "strong", "tt", "u"}, IsBreakout},
	{[]string{"ruby", "span", "sub", "sup", "var"}, IsBreakout},
}

// Names are the names of elements that mean something here.
func Names() (names []string) {
	for _, n := range tagNames {
		if n.name != "" {
			names = append(names, n.name)
		}
	}
	for _, g := range plainTags {
		names = append(names, g.names...)
	}
	return names
}

// TagInfo is the lexer's entry for one name.
type TagInfo struct {
	Key    uint64 // of the name; see NameKey
	Name   string
	Tag    Tag
	Traits Trait
}

// IsPlain reports whether a tag without attributes that links come from means nothing
// but for Lexer.InP, outside of anchors, tables, SVG and other places where any tag
// means something.
func (t *TagInfo) IsPlain() bool {
	return (t.Tag == TagOther || t.Tag == TagP || t.Traits&isQuiet != 0) && t.Traits&(IsRaw|IsScope) == 0
}

// tagsByKey is an open-addressing hash table of all names.
var tagsByKey = func() (t [512]TagInfo) {
	put := func(name string, id Tag, traits Trait) {
		key := NameKey(name)
		i := tagSlot(key)
		for t[i].Name != "" {
			i = (i + 1) % uint64(len(t))
		}
		t[i] = TagInfo{key, name, id, traits}
	}
	for id, n := range tagNames {
		if n.name != "" {
			put(n.name, Tag(id), n.traits)
		}
	}
	for _, group := range plainTags {
		for _, name := range group.names {
			put(name, TagOther, group.traits)
		}
	}
	return t
}()

func tagSlot(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> 55 }

// NameKey folds a lower-case name into 64 bits, the first byte lowest. Names up to 8
// bytes, without NUL bytes, have a key of their own each.
func NameKey(name string) (key uint64) {
	for i := range len(name) {
		key ^= uint64(name[i]) << (i % 8 * 8)
	}
	return key
}

// other is the entry for all unknown names.
var other TagInfo

// LookupTag finds a name, as it is written in the document, by its key.
func LookupTag(key uint64, name []byte) *TagInfo {
	for i := tagSlot(key); ; i = (i + 1) % uint64(len(tagsByKey)) {
		t := &tagsByKey[i]
		if t.Key == key && len(t.Name) == len(name) && (len(name) <= 8 || HasFold(name, t.Name)) {
			return t
		}
		if t.Name == "" {
			return &other
		}
	}
}

// Attr is an attribute that a reader of documents may want.
type Attr uint8

const (
	AttrAction Attr = iota
	AttrAlt
	AttrArchive
	AttrBackground
	AttrCdata
	AttrCharset
	AttrCite
	AttrClipPath
	AttrCode
	AttrCodebase
	AttrColor
	AttrContent
	AttrCursor
	AttrData
	AttrDataBackground
	AttrDataBackgroundImage
	AttrDataBg
	AttrDataHref
	AttrDataLazy
	AttrDataLazySrc
	AttrDataLazySrcset
	AttrDataOriginal
	AttrDataPoster
	AttrDataSrc
	AttrDataSrcset
	AttrDataUri
	AttrEncoding
	AttrEnctype
	AttrFace
	AttrFill
	AttrFilter
	AttrFormaction
	AttrFormmethod
	AttrHref
	AttrHreflang
	AttrHTTPEquiv
	AttrIcon
	AttrImageSrcset
	AttrItemprop
	AttrLang
	AttrLongdesc
	AttrMarkerEnd
	AttrMarkerMid
	AttrMarkerStart
	AttrMask
	AttrMethod
	AttrName
	AttrOnclick
	AttrPoster
	AttrProperty
	AttrRel
	AttrSize
	AttrSrc
	AttrSrcdoc
	AttrSrcset
	AttrStroke
	AttrStyle
	AttrTarget
	AttrTitle
	AttrType
	AttrXlinkHref
	AttrXMLLang
	Attrs // their number
)

var attrNames = [Attrs]string{
	AttrAction:              "action",
	AttrAlt:                 "alt",
	AttrArchive:             "archive",
	AttrBackground:          "background",
	AttrCdata:               "cdata",
	AttrCharset:             "charset",
	AttrCite:                "cite",
	AttrClipPath:            "clip-path",
	AttrCode:                "code",
	AttrCodebase:            "codebase",
	AttrColor:               "color",
	AttrContent:             "content",
	AttrCursor:              "cursor",
	AttrData:                "data",
	AttrDataBackground:      "data-background",
	AttrDataBackgroundImage: "data-background-image",
	AttrDataBg:              "data-bg",
	AttrDataHref:            "data-href",
	AttrDataLazy:            "data-lazy",
	AttrDataLazySrc:         "data-lazy-src",
	AttrDataLazySrcset:      "data-lazy-srcset",
	AttrDataOriginal:        "data-original",
	AttrDataPoster:          "data-poster",
	AttrDataSrc:             "data-src",
	AttrDataSrcset:          "data-srcset",
	AttrDataUri:             "data-uri",
	AttrEncoding:            "encoding",
	AttrEnctype:             "enctype",
	AttrFace:                "face",
	AttrFill:                "fill",
	AttrFilter:              "filter",
	AttrFormaction:          "formaction",
	AttrFormmethod:          "formmethod",
	AttrHref:                "href",
	AttrHreflang:            "hreflang",
	AttrHTTPEquiv:           "http-equiv",
	AttrIcon:                "icon",
	AttrImageSrcset:         "imagesrcset",
	AttrItemprop:            "itemprop",
	AttrLang:                "lang",
	AttrLongdesc:            "longdesc",
	AttrMarkerEnd:           "marker-end",
	AttrMarkerMid:           "marker-mid",
	AttrMarkerStart:         "marker-start",
	AttrMask:                "mask",
	AttrMethod:              "method",
	AttrName:                "name",
	AttrOnclick:             "onclick",
	AttrPoster:              "poster",
	AttrProperty:            "property",
	AttrRel:                 "rel",
	AttrSize:                "size",
	AttrSrc:                 "src",
	AttrSrcdoc:              "srcdoc",
	AttrSrcset:              "srcset",
	AttrStroke:              "stroke",
	AttrStyle:               "style",
	AttrTarget:              "target",
	AttrTitle:               "title",
	AttrType:                "type",
	AttrXlinkHref:           "xlink:href",
	AttrXMLLang:             "xml:lang",
}

// Wants are the attributes that a reader of a document needs.
type Wants struct {
	set     uint64      // a bit for each Attr
	lengths [256]uint32 // by first letter, a bit for each length of a name: most attributes are ruled out by it
	foreign *Wants      // within SVG and MathML
}

// Want returns the attributes that are in set, a bit for each Attr, and within SVG and MathML those of foreign, too.
func Want(set, foreign uint64) *Wants {
	const breakouts = 1<<AttrColor | 1<<AttrEncoding | 1<<AttrFace | 1<<AttrSize // which end foreign content, or begin HTML in it
	w := wants(set)
	w.foreign = wants(set | foreign | breakouts)
	return w
}

func wants(set uint64) *Wants {
	w := &Wants{set: set}
	for a, n := range attrNames {
		if set>>a&1 != 0 {
			w.lengths[n[0]] |= 1 << len(n)
			w.lengths[n[0]&^0x20] |= 1 << len(n)
		}
	}
	return w
}

// TagOf is the tag of a name.
func TagOf(name string) Tag { return LookupTag(NameKey(name), []byte(name)).Tag }

// AttrOf is the attribute of a name, which is one of those known here.
func AttrOf(name string) Attr {
	a, ok := LookupAttr([]byte(name))
	if !ok {
		panic("markup: no attribute " + name)
	}
	return a
}

var noWants = Want(0, 0)

// attrsByKey is a hash table of the wanted names, as tagsByKey is.
var attrsByKey = func() (t [128]attrInfo) {
	for a, name := range attrNames {
		key := NameKey(name)
		i := attrSlot(key)
		for t[i].name != "" {
			i = (i + 1) % uint64(len(t))
		}
		t[i] = attrInfo{key, name, Attr(a)}
	}
	return t
}()

type attrInfo struct {
	key  uint64
	name string
	attr Attr
}

func attrSlot(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> 57 }

// LookupAttr finds a wanted attribute by its name as it is written in the document.
func LookupAttr(name []byte) (Attr, bool) {
	var key uint64
	for i, c := range name {
		key ^= uint64(attrByte[c]) << (i % 8 * 8)
	}
	for i := attrSlot(key); ; i = (i + 1) % uint64(len(attrsByKey)) {
		t := &attrsByKey[i]
		if t.key == key && len(t.name) == len(name) && (len(name) <= 8 || HasFold(name, t.name)) {
			return t.attr, true
		}
		if t.name == "" {
			return 0, false
		}
	}
}
