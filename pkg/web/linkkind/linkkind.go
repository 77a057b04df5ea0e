// Package linkkind declares the kinds of links: the values of the column link_kind, which filters name in "kind K".
//
// # Invariants
//
//   - All has each kind once.
//   - A page's parts, their parts and so on are at most Levels deep, whatever servers say.
package linkkind

import (
	"fmt"
	"strings"
)

// Kinds of links. A link element has a kind for each relation of its own.
const (
	A                 = "a"
	Applet            = "applet"
	Area              = "area"
	Audio             = "audio"
	Background        = "background"
	Cite              = "cite"
	ContentLocation   = "content-location"
	CSS               = "css"
	CSSImport         = "css-import"
	Embed             = "embed"
	Feed              = "feed"
	Form              = "form"
	Frame             = "frame"
	Iframe            = "iframe"
	Img               = "img"
	JSON              = "json"
	JSONLD            = "json-ld"
	Lazy              = "lazy"
	Link              = "link"
	LinkAlternate     = "link-alternate"
	LinkAMPHTML       = "link-amphtml"
	LinkAuthor        = "link-author"
	Canonical         = "link-canonical"
	LinkHelp          = "link-help"
	LinkHreflang      = "link-hreflang"
	LinkIcon          = "link-icon"
	LinkLicense       = "link-license"
	LinkManifest      = "link-manifest"
	LinkModulepreload = "link-modulepreload"
	LinkNext          = "link-next"
	LinkPrefetch      = "link-prefetch"
	LinkPreload       = "link-preload"
	LinkPrerender     = "link-prerender"
	LinkPrev          = "link-prev"
	LinkSearch        = "link-search"
	LinkShortlink     = "link-shortlink"
	LinkStylesheet    = "link-stylesheet"
	Listing           = "listing"
	Location          = "location"
	Longdesc          = "longdesc"
	Menu              = "menu"
	Meta              = "meta"
	Object            = "object"
	Office            = "office"
	OpenGraph         = "og"
	OPML              = "opml"
	PDF               = "pdf"
	Poster            = "poster"
	Redirect          = "redirect"
	Refresh           = "refresh"
	Rendered          = "rendered"
	Requested         = "requested"
	Script            = "script"
	ScriptGuess       = "script-guess"
	Sitemap           = "sitemap"
	SitemapURL        = "sitemap-url"
	Source            = "source"
	SVG               = "svg"
	SVGA              = "svg-a"
	Text              = "text"
	Track             = "track"
	Video             = "video"
	XML               = "xml"
)

// Levels of parts: a page's style sheet, the sheet that it imports, and what that names; or a frame, and those of its document.
const (
	leaf   = 1
	sheet  = 3
	frame  = 4
	Levels = frame
)

// Page is added to the column requisite of a part that the filter allows as a page, too: it has all parts that pages have.
const Page = 8

// Kind is a kind of link, with its properties.
type Kind struct {
	Name  string
	parts uint8  // 0: no part of a page; 1: a part without parts of its own; n: with n-1 levels of them
	What  string // for people
}

// All are the kinds, in the order of their names.
var All = []Kind{
	{A, 0, "a element"},
	{Applet, leaf, "code or archive of an applet"},
	{Area, 0, "area of an image map"},
	{Audio, leaf, "audio element"},
	{Background, leaf, "background attribute"},
	{Cite, 0, "cite attribute"},
	{ContentLocation, 0, "Content-Location header"},
	{CSS, leaf, "url() in a style sheet, a style element or attribute"},
	{CSSImport, sheet, "@import"},
	{Embed, frame, "embed element"},
	{Feed, 0, "item, channel or enclosure of RSS or Atom"},
	{Form, 0, "action of a form with method GET, or of its buttons"},
	{Frame, frame, "frame element"},
	{Iframe, frame, "iframe element"},
	{Img, leaf, "src and srcset of pictures, input type=image"},
	{JSON, 0, "URL in a string of JSON"},
	{JSONLD, 0, "URL in JSON-LD"},
	{Lazy, leaf, "data-src and others, from which scripts load pictures later"},
	{Link, 0, "link element or Link header with another relation than those below"},
	{LinkAlternate, 0, "alternate"},
	{LinkAMPHTML, 0, "amphtml"},
	{LinkAuthor, 0, "author"},
	{Canonical, 0, "the page's own URL"},
	{LinkHelp, 0, "help"},
	{LinkHreflang, 0, "alternate with hreflang"},
	{LinkIcon, leaf, "icon, apple-touch-icon, mask-icon"},
	{LinkLicense, 0, "license"},
	{LinkManifest, leaf, "manifest"},
	{LinkModulepreload, leaf, "modulepreload"},
	{LinkNext, 0, "next"},
	{LinkPrefetch, 0, "prefetch"},
	{LinkPreload, sheet, "preload"},
	{LinkPrerender, 0, "prerender"},
	{LinkPrev, 0, "prev"},
	{LinkSearch, 0, "search"},
	{LinkShortlink, 0, "shortlink"},
	{LinkStylesheet, sheet, "stylesheet"},
	{Listing, 0, "entry in a listing of FTP"},
	{Location, 0, "Location header of a reply that is no redirect"},
	{Longdesc, 0, "page that describes a picture or a frame"},
	{Menu, 0, "item of a Gopher menu"},
	{Meta, 0, "meta element with a URL, but those of Open Graph"},
	{Object, frame, "object element"},
	{Office, 0, "link of an office document or a book"},
	{OpenGraph, 0, "Open Graph, or Twitter's"},
	{OPML, 0, "feed, or its page, in a list of feeds"},
	{PDF, 0, "link of a PDF file"},
	{Poster, leaf, "picture of a video"},
	{Redirect, 0, "target of a redirect"},
	{Refresh, 0, "Refresh header, or the meta element"},
	{Rendered, 0, "found on a page after its scripts ran, and not before"},
	{Requested, leaf, "what a page's scripts asked for"},
	{Script, leaf, "script element"},
	{ScriptGuess, 0, "what looks like a URL in a script"},
	{Sitemap, 0, "sitemap, named by robots.txt or a sitemap index"},
	{SitemapURL, 0, "page, named by a sitemap"},
	{Source, leaf, "source of a video or a picture"},
	{SVG, leaf, "href of an element of SVG that is no link"},
	{SVGA, 0, "a element of SVG"},
	{Text, 0, "URL in plain text"},
	{Track, leaf, "subtitles"},
	{Video, leaf, "video element"},
	{XML, 0, "URL in XML of no vocabulary known here"},
}

// groups are names that stand for more kinds than their own.
var groups = map[string][]string{
	CSS:  {CSS, CSSImport, LinkStylesheet},
	Link: nil, // and all that begin with it
}

// Own is how kinds begin that programs of the user give their links.
const Own = "x-"

// Names returns the names of all kinds.
func Names() (names []string) {
	for _, k := range All {
		names = append(names, k.Name)
	}
	return names
}

// Named are the kinds that a name stands for; none: there is no such kind.
func Named(name string) []string {
	if strings.HasPrefix(name, Own) && len(name) > len(Own) {
		return []string{name}
	}
	of, grouped := groups[name]
	if of != nil {
		return of
	}
	for _, k := range All {
		if k.Name == name || grouped && strings.HasPrefix(k.Name, name+"-") {
			of = append(of, k.Name)
		}
	}
	return of
}

var parts = func() map[string]uint8 {
	m := make(map[string]uint8)
	for _, k := range All {
		if k.parts > 0 {
			m[k.Name] = k.parts
		}
	}
	return m
}()

// Requisite is the column requisite of the target of a link, of a URL with that column: 0 unless it is a part of its page.
// A redirect of a part is the same part. What is no page itself has no parts but those that its kind allows: a style sheet's, a frame's.
func Requisite(kind string, of uint8) uint8 {
	n := parts[kind]
	switch {
	case kind == Redirect:
		return of &^ Page // the filter says what it is
	case of > 0 && of < Page:
		return min(n, of-1)
	}
	return n
}

// Table writes the kinds for people, a line each.
func Table() string {
	var b strings.Builder
	for _, k := range All {
		part := ""
		if k.parts > 0 {
			part = " *"
		}
		fmt.Fprintf(&b, "%-18s %s%s\n", k.Name, k.What, part)
	}
	return b.String()
}
