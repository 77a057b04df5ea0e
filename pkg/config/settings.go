package config

import (
	"time"

	"mercator/pkg/base/setting"
	"mercator/pkg/frontier"
	"mercator/pkg/web/canon"
)

// The structs below declare the settings, in groups that several verbs share: a verb that embeds a group in its grammar has the
// flags, and File makes the settings of crawl.toml of the same fields. The tags of package setting say what a value may be, the tags of
// kong how a flag looks. Besides:
//
//	key    the setting, with its table
//	help   what it is, in the help of the flag and in crawl.toml
//	note   what crawl.toml says beyond that
//	like   an example; "" where default or placeholder is one
//	is     what a text is, see kinds
//	path   its values are names of files, relative to the folder of crawl.toml; word is a value that is none
//	fixed  it counts when the crawl is made, and not later
//	alone  it is of one crawl: a crawl that is made like another has one of its own
//	crawl  the default in a crawl folder, if it differs from the flag's
//	runs   it names programs, see withoutPrograms
//	sep    "none": the members of a list may hold commas behind "=" or ":"
//	sheet  a host sheet may give it: to a "host", to a "url", or to hosts that it names ("own")
//
// A flag with a key and no other tags of these, as --policy of "mckpt init", is the setting's too.

// File is the layout of crawl.toml, with defaults where it sets nothing.
type File struct {
	Seeds     []string `key:"seeds" path:"yes" like:"seeds.txt" help:"Files with one seed URL a line, where SEEDS= names none."`
	BareSeeds []string `key:"bare_seeds" sep:"none" like:"www.example.org/docs/" help:"Seeds given without a scheme: taken as https, or as http if https does not connect."`
	Batch
	RoundTime
	Rounds int `key:"rounds" range:"0" like:"0" help:"Stop after this round, where ROUNDS= names none; 0: when the frontier is empty."`
	IntervalFlag
	SheetsFlag
	Push string `key:"push" alone:"yes" is:"remote" runs:"remote" like:"backup.example.org:crawl" help:"Where mckpt push keeps a copy, after each round too: an absolute folder, HOST:PATH, or rclone:NAME:PATH."`

	URLs RewriteFlags

	Memory struct {
		Fetch  Size `key:"memory.fetch" name:"memory" default:"128M" range:"1M" help:"Bound on mfetch's resident memory."`
		Stages Size `key:"memory.stages" name:"memory" default:"64M" range:"32M" help:"Bound for each other command."`
		Total  Size `key:"memory.total" range:"64M" like:"1G" help:"Bound on mcrawl run's resident memory: as many shards work at a time as fit." note:"default: memory.fetch and memory.stages, summed over what works at a time"`
	}

	Sets struct {
		NewSet
		ContentHashFlag
		ModeFlag
		URLs    URLSet
		Content ContentSet
	}

	Frontier struct {
		frontier.Params `fixed:"yes"`
		Failures
		NewURLs
		Budgets
	}

	Politeness struct {
		Delays
		LongestWaitFlag
	}

	Fetch struct {
		ConnectionsFlag
		MaxBodyFlag
		UserAgentFlag
		Fetch
	}

	Network AllowNetFlag

	Resolve struct {
		ServerFlag
		RateFlag
		Lifetimes
		Canonical bool `key:"resolve.canonical" like:"false" help:"Links to an alias (CNAME) of the same domain lead to its canonical name." note:"hosts that share such a name but have pages of their own are lost (mresolve canon); filter rules must allow canonical names, too"`
	}

	Extract struct {
		FilterFlag
		Links
		ModuleFlags
	}

	Render Render

	Focus struct {
		ModelFlag
		Distill  int `key:"focus.distill" range:"0" like:"0" help:"Every N rounds mcrawl run raises waiting URLs that good hubs link to (mfocus distill)." note:"needs several front queues; 0: never"`
		Patience int `key:"focus.patience" range:"0" like:"0" help:"Stop \"mcrawl run\" after N rounds in a row without a relevant page." note:"once there was one; needs focus.model; 0, or policy revisit: never"`
	}

	Stages struct {
		SeenProgram
		ContentProgram
		ResolveProgram
		FilterPrograms
		ProgramTime
	}

	Engine struct {
		On   string `key:"engine.on" enum:"local,slurm,spark" default:"local" help:"What runs the tasks of shards: local (this machine), slurm or spark."`
		Args string `key:"engine.args" runs:"always" like:"--partition=internet --time=1:00:00" help:"Options of sbatch or pyspark, separated by spaces."`
		Bin  string `key:"engine.bin" runs:"always" like:"/shared/mercator/bin/mcrawl" help:"Mcrawl as the engine's machines see it, beside the other commands; default: as here."`
	}
}

// tables are the tables of crawl.toml, in its order; "" is the part before them.
var tables = []string{"", "urls", "memory", "sets", "frontier", "politeness", "fetch", "robots", "network", "resolve", "extract", "render", "focus", "stages", "engine"}

// Size is a number of bytes.
type Size = setting.Size

// Defaults of memory.fetch and memory.stages.
const (
	FetchMemory  Size = 128 << 20
	StagesMemory Size = frontier.Memory
)

// Batch bounds a batch.
type Batch struct {
	Number    int `key:"batch" default:"10000" range:"1" group:"The batch:" short:"n" placeholder:"10000" help:"At most this many URLs." note:"in a round, of each shard"`
	PerHost   int `key:"frontier.per_host" range:"0" like:"0" group:"The batch:" placeholder:"N" help:"At most N URLs of a host in a batch." note:"0: any number"`
	PerDomain int `key:"frontier.per_domain" range:"0" like:"0" group:"The batch:" placeholder:"N" help:"At most N URLs of a registered domain in a batch." note:"0: any number"`

	MaxHostBytes Size `key:"frontier.max_host_bytes" sheet:"host" range:"0" like:"0" group:"The batch:" name:"max-host-bytes" placeholder:"SIZE" help:"Refuse URLs of a host that has sent so many." note:"bytes of bodies, such as 500M; a round takes one URL more than fits; 0: any number"`
}

// RoundTime bounds the time of a batch.
type RoundTime struct {
	For time.Duration `key:"round_time" range:"0s 24h" crawl:"30s" like:"30s" placeholder:"TIME" help:"Duration of a round (in a crawl: 30s); 0s: any." note:"of each host what fits, at most batch in all"`
}

// SheetsFlag names the host sheets.
type SheetsFlag struct {
	Sheets string `key:"sheets" path:"yes" like:"sheets.txt" more:"" placeholder:"FILE" help:"Sheets: other settings for some hosts or URLs." note:"mfetch-fetch(1) has their form"`
}

// IntervalFlag is how often checkpoints are kept.
type IntervalFlag struct {
	Interval time.Duration `key:"checkpoint_interval" range:"0s" default:"0s" like:"1h" help:"Forget checkpoints closer together than this."`
}

// URLFlags are the settings of canonical URLs and their keys that the commands of a crawl must agree on.
type URLFlags struct {
	Schemes
	MaxURL   int      `key:"urls.max_url" default:"2083" range:"1" group:"URLs:" more:"" name:"max-url" help:"Longest canonical URL, in bytes."`
	KeyRules []string `key:"urls.key_rules" is:"rules" like:"session-ids" group:"URLs:" more:"" placeholder:"RULE" help:"Differences that the URL-seen test ignores." note:"session-ids, www, query-order, tracking, trailing-slash; cannot be changed after the first round"`
}

// Schemes are the URL schemes that a crawl fetches.
type Schemes struct {
	Scheme []string `key:"schemes" is:"schemes" default:"http,https,ftp,gopher" group:"URLs:" more:"" placeholder:"NAME" help:"Crawl these schemes (http,https,ftp,gopher)." note:"others with their default ports"`
}

// RewriteFlags are URLFlags of a command that makes URLs canonical.
type RewriteFlags struct {
	URLFlags
	URLRules []string `key:"urls.url_rules" is:"rules" like:"tracking" group:"URLs:" more:"" placeholder:"RULE" help:"Rewrite URLs; \"murlset key\" lists the rules." note:"mcrawl site sets session-ids, tracking"`
}

// Canon is the form of URLs that the flags say.
func (f URLFlags) Canon() (opt canon.Options, err error) {
	opt.MaxURL = f.MaxURL
	if opt.Schemes, err = canon.ParseSchemes(f.Scheme); err != nil {
		return opt, err
	}
	opt.KeyRules, err = canon.ParseRules(f.KeyRules)
	return opt, err
}

// Canon is the form of URLs that the flags say.
func (f RewriteFlags) Canon() (canon.Options, error) {
	opt, err := f.URLFlags.Canon()
	if err == nil {
		opt.URLRules, err = canon.ParseRules(f.URLRules)
	}
	return opt, err
}

// NewSet says how a set of fingerprints is made.
type NewSet struct {
	PolynomialFlag
	BloomSize Size `key:"sets.bloom_size" range:"1" fixed:"yes" like:"64M" placeholder:"64M" help:"Size of a Bloom filter: 12 bits a key err in 0.4 %."`
}

// PolynomialFlag is the polynomial of a crawl's sets.
type PolynomialFlag struct {
	Polynomial string `key:"sets.polynomial" is:"polynomial" fixed:"yes" like:"911498ae0e66bad6" placeholder:"HEX" help:"That of another set, or random (default: Mercator's)." note:"16 hexadecimal digits; cannot be changed later"`
}

// ContentHashFlag is the function for checksums of documents.
type ContentHashFlag struct {
	ContentHash string `key:"sets.content_hash" enum:",fp64,md5,sha256" default:"" fixed:"yes" like:"fp64" more:"" placeholder:"NAME" help:"Function for checksums of documents: fp64 (Rabin's), md5, sha256." note:"their first 64 bits; when the crawl is made"`
}

// ModeFlag is how the URL-seen test is made.
type ModeFlag struct {
	Mode string `key:"sets.mode" enum:"batch,online" default:"batch" placeholder:"batch" help:"batch reads all input first; online does not wait." note:"of the URL-seen test"`
}

// URLSet is the implementation of the set of URLs.
type URLSet struct {
	Impl string `key:"sets.urls" enum:"sorted,bloom" default:"sorted" fixed:"yes" placeholder:"NAME" help:"sorted (the default) or bloom (lossy)." note:"the set of URLs, when the crawl is made"`
}

// ContentSet is the implementation of the set of documents.
type ContentSet struct {
	Impl string `key:"sets.content" enum:"sorted,bloom" default:"sorted" fixed:"yes" placeholder:"NAME" help:"sorted (the default) or bloom (lossy)." note:"the set of documents, when the crawl is made"`
}

// Failures say when a URL or a host is given up.
type Failures struct {
	MaxAttempts int           `key:"frontier.max_attempts" sheet:"url" default:"3" range:"1 255" group:"Failures:" help:"Fetches of a URL before it is given up, 1 to 255." note:"not counting an outage of its host, up to two hours"`
	RetryDelay  time.Duration `key:"frontier.retry_delay" sheet:"url" default:"1m" range:"0s 24h" group:"Failures:" help:"Wait after a failure; longer with each, up to 24h." note:"below a minute it grows faster; mcrawl site sets 5s"`
	DeadAfter   int           `key:"frontier.dead_after" range:"0" like:"0" group:"Failures:" placeholder:"N" help:"Leave a host alone after N failed contacts." note:"in a row; 0: never"`
	DeadDelay   time.Duration `key:"frontier.dead_delay" default:"1h" range:"0s 168h" group:"Failures:" help:"Leave it alone so long; doubles, up to 168h."`
}

// NewURLs say what becomes of new URLs.
type NewURLs struct {
	MaxDepth           int           `key:"frontier.max_depth" sheet:"url" range:"0" like:"0" group:"New URLs:" placeholder:"N" help:"Drop those more than N links from a seed." note:"of new URLs; 0: none"`
	MaxHostURLs        uint64        `key:"frontier.max_host_urls" sheet:"host" range:"0" like:"0" group:"New URLs:" name:"max-host-urls" placeholder:"N" help:"Drop those of a host that has N already." note:"of new URLs; 0: none"`
	Prioritizer        string        `key:"frontier.prioritizer" runs:"word" like:"depth" group:"New URLs:" placeholder:"COMMAND" help:"Program that gives priorities; or depth, or score." note:"score, with focus.model: links of relevant pages first; a command answers lines of JSON by PRIORITY or PRIORITY SCORE"`
	PrioritizerTimeout time.Duration `key:"frontier.prioritizer_timeout" default:"10s" range:"0s" group:"New URLs:" help:"Time for an answer of that program."`
}

// Budgets bound how many new URLs of a domain enter the frontier in a round.
type Budgets struct {
	DomainBudget uint64   `key:"frontier.domain_budget" range:"0 4294967296" like:"0" group:"New URLs:" placeholder:"N" help:"Let in N of a registered domain a round." note:"others wait; 0: any number"`
	DomainGrowth *float64 `key:"frontier.domain_growth" range:"0 4294967296" like:"1.0" group:"New URLs:" placeholder:"1" help:"N more for each domain that links to it."`
}

// Delays are the gaps between contacts.
type Delays struct {
	MinDelay    time.Duration `key:"politeness.min_delay" sheet:"host" default:"1s" range:"0s" help:"Least gap between contacts with a host."`
	DelayFactor float64       `key:"politeness.delay_factor" sheet:"host" default:"10" range:"0 1000000" more:"" help:"Gap as a multiple of the last contact's duration."`
	MaxDelay    time.Duration `key:"politeness.max_delay" sheet:"host" default:"30s" range:"0s" more:"" help:"Longest gap of our own making."`
	AddrDelay   time.Duration `key:"politeness.addr_delay" default:"500ms" range:"0s" more:"" help:"Least gap between contacts with an address."`
}

// OfSheets are settings that host sheets alone give.
type OfSheets struct {
	Connections int    `key:"politeness.connections" sheet:"own" default:"1" range:"1 64" help:"Connections at a time to a host of your own." note:"each keeps the gaps"`
	Window      string `key:"politeness.window" sheet:"host" is:"window" like:"22:00-06:00" help:"Times of day at which contacts begin." note:"such as \"22:00-06:00,12:00-13:00 Europe/Berlin\"; UTC without a zone"`
	Robots      string `key:"robots.policy" sheet:"named" enum:"obey,ignore" default:"obey" help:"obey robots.txt, or ignore it on hosts of your own." note:"the User-Agent says so; it is still asked for"`
}

// IgnoresRobots reports whether what robots.txt says does not count.
func (o OfSheets) IgnoresRobots() bool { return o.Robots == "ignore" }

// LongestWaitFlag bounds what a server may ask for.
type LongestWaitFlag struct {
	LongestWait time.Duration `key:"politeness.longest_wait" default:"24h" range:"1ms 8784h" more:"" help:"Park URLs of servers that ask for more." note:"by Crawl-delay or Retry-After"`
}

// ConnectionsFlag is the number of a fetcher's connections.
type ConnectionsFlag struct {
	Connections int `key:"fetch.connections" default:"256" range:"1 100000" help:"Connections at a time, one for each host." note:"in each shard"`
}

// MaxBodyFlag bounds a document.
type MaxBodyFlag struct {
	MaxBody Size `key:"fetch.max_body" default:"10M" range:"1" more:"" help:"Bytes of a document to keep, and to search."`
}

// UserAgentFlag is the name of the crawler.
type UserAgentFlag struct {
	UserAgent string `key:"fetch.user_agent" is:"product" default:"mercator" more:"" group:"Requests:" placeholder:"mercator" help:"Product name, also for robots.txt." note:"and for X-Robots-Tag and meta elements"`
}

// Fetch holds the settings of mfetch alone.
type Fetch struct {
	Contact     string        `key:"fetch.contact" is:"contact" like:"you@example.org" placeholder:"ADDRESS" help:"Your e-mail address or URL, for the servers." note:"it stands in the User-Agent"`
	Timeout     time.Duration `key:"fetch.timeout" sheet:"url" default:"1m" range:"1ms" more:"" group:"Limits:" help:"Duration of a contact."`
	ConnectTime time.Duration `key:"fetch.connect_timeout" sheet:"host" default:"20s" range:"1ms" more:"" name:"connect-timeout" group:"Limits:" help:"Time until a connection stands, TLS included." note:"mcrawl site sets 5s for bare_seeds"`
	WARCCodec   string        `key:"fetch.warc_codec" enum:"gzip,zstd,none" default:"gzip" more:"" group:"WARC files:" name:"warc-codec" placeholder:"gzip" help:"gzip, zstd or none." note:"the compression of WARC files"`
	WARCPrefix  string        `key:"fetch.warc_prefix" is:"prefix" alone:"yes" default:"crawl" more:"" group:"WARC files:" name:"warc-prefix" placeholder:"crawl" help:"Begins the names of WARC files." note:"set by mcrawl new, site and focus"`
	WARCSize    Size          `key:"fetch.warc_size" default:"1G" range:"1" more:"" group:"WARC files:" name:"warc-size" help:"Begin another file at this size."`
	Dedup       bool          `key:"fetch.dedup" like:"false" more:"" group:"WARC files:" help:"Keep equal payloads once, by revisit records."`
	Digests     bool          `key:"fetch.warc_block_digest" like:"false" more:"" group:"WARC files:" name:"warc-block-digest" help:"Write WARC-Block-Digest too."`
	Assign      string        `key:"fetch.assign" enum:"dynamic,static" default:"dynamic" more:"" group:"Politeness:" placeholder:"dynamic" help:"Hosts go to free connections; static: by hash."`
	Method      string        `key:"fetch.method" enum:"GET,HEAD" default:"GET" more:"" group:"Requests:" placeholder:"GET" help:"GET or HEAD." note:"the method of requests"`
	Header      []string      `key:"fetch.headers" sheet:"url" is:"header" sep:"none" like:"Accept-Language: de" more:"" group:"Requests:" placeholder:"LINE" help:"Header line, such as \"Accept-Language: de\"." note:"sent with every request"`
	Login       string        `key:"fetch.login" path:"yes" like:"login.txt" more:"" group:"Requests:" placeholder:"FILE" help:"Passwords, tokens, cookies of servers (manual: Logins)."`
	Cookies     bool          `key:"fetch.cookies" default:"true" negatable:"" more:"" group:"Requests:" help:"Keep cookies in the store (default)." note:"over the whole crawl"`
	Exec        []string      `key:"fetch.exec" is:"program" runs:"always" sep:"none" like:"gemini=./gemini.sh" more:"" group:"Requests:" placeholder:"S=COMMAND" help:"Fetch URLs of scheme S by a program." note:"S=COMMAND"`
	ExecState   []string      `key:"fetch.exec_state" like:"gemini" more:"" group:"Requests:" placeholder:"S" help:"Keep the state of S's program over the crawl." note:"in modules/S; after a change run mckpt init"`
	Proxy       string        `key:"fetch.proxy" sheet:"host" is:"proxy" like:"socks5://127.0.0.1:1080" more:"" group:"Requests:" placeholder:"URL" help:"http://HOST:PORT or socks5://HOST:PORT." note:"all requests go through it"`
	RefusedOK   bool          `key:"fetch.refused_ok" like:"false" more:"" group:"What may be contacted:" name:"refused-ok" help:"Go on even if settings refuse many URLs."`
	TLSCA       string        `key:"fetch.tls_ca" path:"yes" like:"ca.pem" more:"" group:"Requests:" name:"tls-ca" placeholder:"FILE" help:"Trust the authorities of this PEM file too."`
	TLSInsecure bool          `key:"fetch.tls_insecure" sheet:"host" like:"false" more:"" group:"Requests:" name:"tls-insecure" help:"Accept certificates that do not verify."`

	Deny string `key:"network.deny" path:"yes" like:"deny.txt" placeholder:"FILE" help:"Hosts and URL prefixes not to contact, one a line." note:"the file is read again when it changes"`

	RobotsKeepFlag
	RobotsEngine string `key:"robots.engine" enum:"rfc9309,temoto" default:"rfc9309" more:"" group:"Requests:" placeholder:"rfc9309" help:"Parser of robots.txt: rfc9309, or temoto to compare (not on files with more than 2 KiB of wildcard lines)."`
}

// RobotsKeepFlag says how old a robots.txt may get.
type RobotsKeepFlag struct {
	RobotsKeep time.Duration `key:"robots.keep" default:"24h" range:"1s 24h" more:"" group:"Requests:" help:"How long a robots.txt holds for later rounds."`
}

// AllowNetFlag opens special-purpose networks.
type AllowNetFlag struct {
	AllowNet []string `key:"network.allow_net" is:"network" like:"10.0.0.0/8" placeholder:"CIDR" help:"Special-purpose networks, such as 127.0.0.0/8." note:"or addresses of this machine"`
}

// ServerFlag are DNS servers.
type ServerFlag struct {
	Server []string `key:"resolve.servers" is:"server" like:"192.0.2.53" placeholder:"ADDR[:PORT]" help:"DNS server; repeatable (default: resolv.conf's)."`
}

// RateFlag bounds questions to a DNS server.
type RateFlag struct {
	Rate float64 `key:"resolve.rate" range:"0.001 1000000000" or:"0" like:"200" placeholder:"N" help:"Questions a second to one server, at most." note:"of all shards together; 0: any number"`
}

// Lifetimes bound how long answers of DNS servers are kept.
type Lifetimes struct {
	MinTTL time.Duration `key:"resolve.min_ttl" default:"1m" range:"1ms" name:"min-ttl" help:"Keep answers at least this long."`
	MaxTTL time.Duration `key:"resolve.max_ttl" default:"24h" range:"1ms" name:"max-ttl" help:"Keep answers at most this long."`
}

// FilterFlag says which URLs are crawled.
type FilterFlag struct {
	Filter string `key:"extract.filter" path:"yes" word:"default" like:"default" placeholder:"FILE" help:"Rule file (see mextract explain), or default." note:"default: the shipped rules against traps; if not set, every link is followed; it judges waiting URLs, too"`
}

// Links say which documents are searched for links, and for which.
type Links struct {
	LinkSources
	Duplicates bool `key:"extract.duplicates" like:"false" help:"Search duplicate documents too." note:"not only style sheets"`
}

// LinkSources say which links are found.
type LinkSources struct {
	IgnoreNofollow bool     `key:"extract.ignore_nofollow" like:"false" help:"Find links of pages that say nofollow too."`
	From           []string `key:"extract.from" enum:"default,all,headers,html,css,sitemap,feed,robots,pdf,office,ftp,gopher,text,json,xml,script" default:"default" placeholder:"SOURCE" help:"default, all, or some of the sources." note:"headers, html, css, sitemap, feed, robots, pdf, office, ftp, gopher (the default); text, json, xml, script (guesses)"`
}

// ModuleFlags choose the processing modules.
type ModuleFlags struct {
	Module        []string      `key:"extract.modules" is:"module" runs:"module" sep:"none" like:"[\"page\", \"words=text/html,text/plain:wc -w\"]" group:"Processing modules:" placeholder:"SPEC" help:"NAME, NAME=TYPES or NAME=TYPES:[stay ]COMMAND." note:"processing modules; findings are in rounds/rN/modules.arrows.zst"`
	ModuleState   []string      `key:"extract.module_state" like:"tags" group:"Processing modules:" placeholder:"NAME" help:"Keep the state of this module over the crawl." note:"of tags, image or a command, in modules/NAME; after a change run mckpt init"`
	ModuleTimeout time.Duration `key:"extract.module_timeout" default:"10s" range:"1ms" group:"Processing modules:" help:"Time for a command and a document."`
}

// Render says which pages a browser loads, and within which bounds.
type Render struct {
	Pages      string        `key:"render.pages" enum:",auto,all" default:"" like:"auto" placeholder:"auto" help:"Run the scripts of pages in Chromium: auto or all." note:"auto: pages with scripts and hardly any text or links, and pages of hosts that gave such; if set later, run mckpt init; not with shards"`
	Rules      string        `key:"render.filter" path:"yes" like:"render.rules" name:"rules" placeholder:"FILE" help:"Rule file: what it allows is rendered, what it denies is not." note:"rules as for extract.filter; render.pages decides on the rest"`
	Browser    string        `key:"render.browser" more:"" runs:"always" like:"/usr/bin/chromium" group:"Browsers:" placeholder:"FILE" help:"Chromium (default: that of PATH)."`
	Browsers   int           `key:"render.browsers" more:"" default:"1" range:"1 64" group:"Browsers:" help:"Browsers at a time, each with one page."`
	BrowserMax Size          `key:"render.memory" more:"" name:"browser-memory" default:"1G" range:"128M" group:"Browsers:" help:"End a browser that takes more." note:"the page is tried once more"`
	Wait       time.Duration `key:"render.wait" more:"" default:"5s" range:"1ms 10m" group:"A page:" help:"Time in the page until it is taken." note:"it passes faster where the page only waits"`
	Timeout    time.Duration `key:"render.timeout" more:"" default:"30s" range:"1s 1h" name:"page-timeout" group:"A page:" help:"Take it as it stands after this time."`
	Requests   int           `key:"render.requests" more:"" default:"500" range:"1" group:"A page:" help:"Requests that are answered."`
	Bytes      Size          `key:"render.bytes" more:"" default:"64M" range:"1" name:"answer-bytes" group:"A page:" help:"Bytes of their answers."`
	Attempts   int           `key:"render.attempts" more:"" default:"10" range:"1 1000" group:"A page:" help:"Times that it is rendered, as its parts come." note:"what its scripts ask for comes in the next round"`
	Scroll     int           `key:"render.scroll" more:"" range:"0 1000" like:"0" group:"A page:" placeholder:"N" help:"Scroll to its end, up to N times."`
	More       int           `key:"render.more" more:"" range:"0 1000" like:"0" group:"A page:" placeholder:"N" help:"Click on \"load more\" and the like, up to N times."`
	Screenshot bool          `key:"render.screenshot" more:"" like:"false" group:"A page:" help:"Keep a picture of it, in the render store."`
}

// On reports whether any page is rendered.
func (r Render) On() bool { return r.Pages != "" || r.Rules != "" }

// ModelFlag is the model of a focused crawl's topics.
type ModelFlag struct {
	Model string `key:"focus.model" path:"yes" like:"mouse.model" more:"" placeholder:"FILE" help:"Model of topics, as mfocus train makes it." note:"it gives scores to pages and their links; not with policies opic and walk"`
}

// SeenProgram is the URL-seen test.
type SeenProgram struct {
	Seen string `key:"stages.seen" more:"" runs:"always" like:"python3 myset.py" name:"program" placeholder:"COMMAND" help:"Program that makes the URL-seen test." note:"when the crawl is made; see mextract-filter(1)"`
}

// ContentProgram is the content-seen test.
type ContentProgram struct {
	Content string `key:"stages.content" more:"" runs:"always" like:"python3 mydocs.py" name:"program" placeholder:"COMMAND" help:"Program that makes the content-seen test." note:"when the crawl is made"`
}

// ResolveProgram is the resolver.
type ResolveProgram struct {
	Resolve string `key:"stages.resolve" more:"" runs:"always" like:"python3 mydns.py" name:"program" placeholder:"COMMAND" help:"Program that resolves host names." note:"when the crawl is made; not with resolve.canonical"`
}

// FilterPrograms stand between two stages.
type FilterPrograms struct {
	Links string `key:"stages.links" runs:"always" like:"python3 mylinks.py" placeholder:"COMMAND" help:"Program that filters link records." note:"before the URL-seen test; state in modules/links; after a change run mckpt init"`
	New   string `key:"stages.new" runs:"always" like:"python3 myorder.py" placeholder:"COMMAND" help:"Program that filters url records." note:"before the frontier, but for those that you add; it may give priority and score; state in modules/new; not in a walk"`
}

// ProgramTime bounds an answer.
type ProgramTime struct {
	ProgramTimeout time.Duration `key:"stages.timeout" more:"" default:"10s" range:"1ms" help:"Time for an answer of the program."`
}
