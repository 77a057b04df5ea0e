// Package config reads crawl.toml, one crawl's whole configuration (Mercator's
// configuration file), and gives each command its part of it.
//
// Every setting is the default of one flag of one or more commands; a flag on
// the command line wins. The tag flag lists them as "command --flag". Settings
// without that tag are read by pipelines ("mckpt show --setting"). The tag path
// marks names of files, which are relative to the folder of crawl.toml. The tag crawl
// is the default in a crawl folder, where it is not that of the flags, fixed marks what cannot change after the crawl
// is made, is says what check takes, runs that a value names programs, and list how Set reads a list. An embedded struct with
// the tag flag has settings that are flags of that command by the same names.
//
// Settings are defaults of flags and nothing else, so that whatever a crawl does can be tried with a
// flag first. File names are relative to the file, so that a crawl folder can be moved.
//
// # Invariants
//
//   - An unknown key is an error that names it, its line, and the nearest known key.
//   - A key of another type is an error with its line.
//   - The settings of a crawl folder that another user owns are refused: some name programs. SafeVariable allows a folder.
//   - A value with a control character, or with one that changes the direction of text, is an error.
//   - Config is read-only after Load.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mercator/formats/store"
	"mercator/pkg/durable"
	"mercator/pkg/fault"
	"mercator/pkg/frontier"
)

// File is the layout of crawl.toml. Durations are text such as "1s", sizes text
// such as "64M".
type File struct {
	Seeds              []string `toml:"seeds" path:"yes" doc:"files with one seed URL a line, where SEEDS= names none" like:"[\"seeds.txt\"]"`
	BareSeeds          []string `toml:"bare_seeds" list:"whole" doc:"seeds that were given without a scheme: they are taken as https, and as http where no connection by https comes about" like:"[\"www.example.org/docs/\"]"`
	Batch              int      `toml:"batch" is:"whole 1" flag:"mfrontier next --number, mfrontier plan --number" doc:"URLs a round, at most, in each shard" like:"10000"`
	RoundTime          string   `toml:"round_time" is:"time 0s 24h" crawl:"30s" flag:"mfrontier next --for, mfrontier plan --for, mfetch --for" doc:"time that a round is to take: of each host what it can do in that time, at most batch in all; 30s where it is not set, 0s: any" like:"\"30s\""`
	Rounds             int      `toml:"rounds" is:"whole 0" doc:"stop after this round, where ROUNDS= names none; 0: when the frontier is empty" like:"0"`
	CheckpointInterval string   `toml:"checkpoint_interval" is:"time 0s" flag:"mckpt commit --interval" doc:"least time between two checkpoints that are kept; 0s: keep that of every round" like:"\"1h\""`
	Push               string   `toml:"push" is:"remote" runs:"remote" doc:"where mckpt push keeps a copy of the crawl, after each round too: an absolute folder, HOST:PATH, or rclone:NAME:PATH" like:"\"backup.example.org:crawl\""`
	Schemes            []string `toml:"schemes" is:"schemes" flag:"mfetch --scheme, mextract --scheme, mfrontier next --scheme, mfrontier plan --scheme, mfrontier add --scheme, mfrontier raise --scheme, murlset new --scheme, murlset add --scheme, murlset test --scheme, murlset build --scheme, murlset key --scheme, mcat --scheme, mresolve canon --scheme" doc:"schemes whose URLs are crawled, others with their default ports" like:"[\"http\", \"https\", \"ftp\", \"gopher\"]"`

	URLs struct {
		MaxURL   int      `toml:"max_url" is:"whole 1" flag:"mfetch --max-url, mextract --max-url, mfrontier add --max-url, mfrontier raise --max-url, murlset new --max-url, murlset add --max-url, murlset test --max-url, murlset build --max-url, murlset key --max-url, mcat --max-url, mresolve canon --max-url" doc:"longest URL, bytes" like:"2083"`
		KeyRules []string `toml:"key_rules" is:"rules" flag:"mfetch --key-rules, mextract --key-rules, mfrontier add --key-rules, mfrontier raise --key-rules, murlset new --key-rules, murlset add --key-rules, murlset test --key-rules, murlset build --key-rules, murlset key --key-rules, mcat --key-rules, mresolve canon --key-rules" doc:"what the URL-seen test overlooks: session-ids, www, query-order, tracking, trailing-slash; cannot be changed after the first round" like:"[\"session-ids\"]"`
		URLRules []string `toml:"url_rules" is:"rules" flag:"mextract --url-rules, mfrontier add --url-rules, mfrontier raise --url-rules, murlset new --url-rules, murlset add --url-rules, murlset test --url-rules, murlset build --url-rules, murlset key --url-rules, mcat --url-rules" doc:"the same rules, by which URLs themselves are rewritten" like:"[\"tracking\"]"`
	} `toml:"urls"`

	Memory struct {
		Fetch  string `toml:"fetch" is:"size 1M" flag:"mfetch --memory" doc:"bound on mfetch's resident memory" like:"\"128M\""`
		Stages string `toml:"stages" is:"size 32M" flag:"mfrontier --memory, mresolve --memory, mfpset --memory, mextract --memory, murlset --memory, mfocus score --memory, mfocus distill --memory, mfocus urls --memory" doc:"bound for each other command" like:"\"64M\""`
	} `toml:"memory"`

	Sets struct {
		Polynomial  string `toml:"polynomial" fixed:"yes" is:"polynomial" flag:"mckpt init --polynomial, murlset create --polynomial, mfpset create --polynomial" doc:"of the sets of URLs and documents: random, which nobody knows, or 16 hexadecimal digits; cannot be changed later" like:"\"911498ae0e66bad6\""`
		ContentHash string `toml:"content_hash" fixed:"yes" is:"fp64|md5|sha256" flag:"mckpt init --content-hash, mfetch --content-hash, mfetch create --content-hash" doc:"function whose first 64 bits are the checksum of a document, when the crawl is made: fp64, md5 or sha256" like:"\"fp64\""`
		Mode        string `toml:"mode" is:"batch|online" flag:"murlset new --mode, murlset add --mode" doc:"URL-seen test: batch or online" like:"\"batch\""`
		URLs        string `toml:"urls" fixed:"yes" is:"sorted|bloom" flag:"murlset create --impl" doc:"implementation of the URL set, when the crawl is made: sorted or bloom" like:"\"sorted\""`
		Content     string `toml:"content" fixed:"yes" is:"sorted|bloom" flag:"mfpset create --impl" doc:"the same of the set of documents" like:"\"sorted\""`
		BloomSize   string `toml:"bloom_size" fixed:"yes" is:"size 1" flag:"murlset create --bloom-size, mfpset create --bloom-size" doc:"size of each Bloom filter" like:"\"64M\""`
	} `toml:"sets"`

	Frontier struct {
		frontier.Params `flag:"mfrontier create" fixed:"yes"`

		PerHost      int    `toml:"per_host" is:"whole 0" flag:"mfrontier next --per-host, mfrontier plan --per-host" doc:"URLs of one host in a batch; 0: any number" like:"0"`
		PerDomain    int    `toml:"per_domain" is:"whole 0" flag:"mfrontier next --per-domain, mfrontier plan --per-domain" doc:"URLs of one registered domain in a batch; 0: any number" like:"0"`
		MaxAttempts  int    `toml:"max_attempts" is:"whole 1 255" flag:"mfrontier update --max-attempts" doc:"fetches of one URL before it is given up" like:"3"`
		RetryDelay   string `toml:"retry_delay" is:"time 0s 24h" flag:"mfrontier update --retry-delay" doc:"wait after a failure; doubles with each further one, below a minute it grows faster; mcrawl site sets 5s" like:"\"1m\""`
		DeadAfter    int    `toml:"dead_after" is:"whole 0" flag:"mfrontier update --dead-after" doc:"failed contacts in a row, after which a host is left alone; 0: never" like:"0"`
		DeadDelay    string `toml:"dead_delay" is:"time 0s 168h" flag:"mfrontier update --dead-delay" doc:"how long such a host is left alone; doubles each time, up to 168h" like:"\"1h\""`
		MaxDepth     int    `toml:"max_depth" is:"whole 0" flag:"mfrontier update --max-depth, mfrontier add --max-depth" doc:"links from a seed, beyond which new URLs are dropped; 0: any number" like:"0"`
		MaxHostURLs  int    `toml:"max_host_urls" is:"whole 0" flag:"mfrontier update --max-host-urls, mfrontier add --max-host-urls" doc:"URLs of one host, beyond which new ones are dropped; 0: any number" like:"0"`
		Prioritizer  string `toml:"prioritizer" runs:"word" flag:"mfrontier update --prioritizer, mfrontier add --prioritizer" doc:"what gives new URLs their priority: depth, score (with focus.model: what relevant pages link to comes first), or a command that answers a line of JSON with PRIORITY or PRIORITY SCORE" like:"\"depth\""`
		PriorityWait string `toml:"prioritizer_timeout" is:"time 0s" flag:"mfrontier update --prioritizer-timeout, mfrontier add --prioritizer-timeout" doc:"time that the command has for an answer" like:"\"10s\""`

		DomainBudget int      `toml:"domain_budget" is:"whole 0 4294967296" flag:"mfrontier update --domain-budget" doc:"new URLs of one registered domain that a round lets into the queues, others wait; 0: any number" like:"0"`
		DomainGrowth *float64 `toml:"domain_growth" is:"number 0 4294967296" flag:"mfrontier update --domain-growth" doc:"by how much that is larger for each other domain that links to it" like:"1.0"`
	} `toml:"frontier"`

	Politeness struct {
		MinDelay    string   `toml:"min_delay" is:"time 0s" flag:"mfetch --min-delay, mfetch audit --min-delay, mfrontier next --min-delay, mfrontier plan --min-delay" doc:"least gap between two contacts to a host" like:"\"1s\""`
		DelayFactor *float64 `toml:"delay_factor" is:"number 0 1000000" flag:"mfetch --delay-factor, mfetch audit --delay-factor, mfrontier next --delay-factor, mfrontier plan --delay-factor" doc:"gap as a multiple of the last contact's duration" like:"10.0"`
		MaxDelay    string   `toml:"max_delay" is:"time 0s" flag:"mfetch --max-delay, mfetch audit --max-delay, mfrontier next --max-delay, mfrontier plan --max-delay" doc:"longest gap of our own making" like:"\"30s\""`
		LongestWait string   `toml:"longest_wait" is:"time 1ms 8784h" flag:"mfetch --longest-wait, mfetch audit --longest-wait, mfrontier update --longest-wait" doc:"longest wait that a server is granted by Crawl-delay or Retry-After; who asks for more is parked" like:"\"24h\""`
		AddrDelay   string   `toml:"addr_delay" is:"time 0s" flag:"mfetch --addr-delay, mfetch audit --addr-delay, mfrontier next --addr-delay, mfrontier plan --addr-delay" doc:"gap between two contacts to one address" like:"\"500ms\""`
		Hosts       []string `toml:"host_connections" is:"host-connections" flag:"mfetch --host-connections, mfetch audit --host-connections, mfrontier next --host-connections, mfrontier plan --host-connections" doc:"hosts of your own that may be asked over several connections at a time, HOST=N, up to 64; all others have one" like:"[\"www.example.org=8\"]"`
	} `toml:"politeness"`

	Fetch struct {
		Connections int      `toml:"connections" is:"whole 1 100000" flag:"mfetch --connections, mfrontier next --connections, mfrontier plan --connections" doc:"open at a time, in each shard" like:"256"`
		Timeout     string   `toml:"timeout" is:"time 1ms" flag:"mfetch --timeout" doc:"longest time of one fetch" like:"\"1m\""`
		ConnectTime string   `toml:"connect_timeout" is:"time 1ms" flag:"mfetch --connect-timeout" doc:"longest time until a connection stands, a handshake of TLS included; mcrawl site sets 5s for bare_seeds" like:"\"20s\""`
		MaxBody     string   `toml:"max_body" is:"size 1" flag:"mfetch --max-body, mextract --max-body, mfocus score --max-body" doc:"decoded bytes kept of a document, and searched" like:"\"10M\""`
		Contact     string   `toml:"contact" is:"contact" flag:"mfetch --contact" doc:"address of the crawl's operator, for the User-Agent" like:"\"you@example.org\""`
		UserAgent   string   `toml:"user_agent" is:"product" flag:"mfetch --user-agent, mextract --user-agent" doc:"product name, also in robots.txt, X-Robots-Tag and meta elements" like:"\"mercator\""`
		WARCCodec   string   `toml:"warc_codec" is:"gzip|zstd" flag:"mfetch --warc-codec" doc:"gzip or zstd" like:"\"gzip\""`
		WARCSize    string   `toml:"warc_size" is:"size 1" flag:"mfetch --warc-size" doc:"size at which a WARC file is complete" like:"\"1G\""`
		Dedup       bool     `toml:"dedup" flag:"mfetch --dedup" doc:"archive equal payloads once" like:"false"`
		BlockDigest bool     `toml:"warc_block_digest" flag:"mfetch --warc-block-digest" doc:"digests of WARC blocks besides those of payloads" like:"false"`
		Assign      string   `toml:"assign" is:"dynamic|static" flag:"mfetch --assign" doc:"connections serve the hosts that are due (dynamic) or that hash to them (static)" like:"\"dynamic\""`
		Method      string   `toml:"method" is:"GET|HEAD" flag:"mfetch --method" doc:"GET or HEAD" like:"\"GET\""`
		Headers     []string `toml:"headers" list:"whole" is:"header" flag:"mfetch --header" doc:"header lines for every request" like:"[\"Accept-Language: de\"]"`
		Login       string   `toml:"login" path:"yes" flag:"mfetch --login" doc:"file of user names and passwords, ORIGIN USER:PASSWORD a line" like:"\"login.txt\""`
		Cookies     bool     `toml:"cookies" flag:"mfetch --cookies" doc:"keep cookies over the whole crawl" like:"true"`
		Exec        []string `toml:"exec" list:"whole" is:"program" runs:"always" flag:"mfetch --exec" doc:"programs that fetch a scheme's URLs, SCHEME=COMMAND" like:"[\"gemini=./gemini.sh\"]"`
		ExecState   []string `toml:"exec_state" flag:"mfetch --exec-state" doc:"schemes among them whose programs keep a state over the whole crawl, in modules/SCHEME; after a change, mckpt init makes the stores that are missing" like:"[\"gemini\"]"`
		Proxy       string   `toml:"proxy" is:"proxy" flag:"mfetch --proxy" doc:"http://HOST:PORT or socks5://HOST:PORT" like:"\"socks5://127.0.0.1:1080\""`
		RefusedOK   bool     `toml:"refused_ok" flag:"mfetch --refused-ok" doc:"go on where settings refuse many URLs of a batch" like:"false"`
		TLSInsecure bool     `toml:"tls_insecure" flag:"mfetch --tls-insecure" doc:"go on when a certificate does not verify" like:"false"`
	} `toml:"fetch"`

	Robots struct {
		Engine string `toml:"engine" is:"rfc9309|temoto" flag:"mfetch --robots-engine" doc:"rfc9309, or temoto to compare: it judges files with at most 2 KiB of lines with wildcards, and rfc9309 the others" like:"\"rfc9309\""`
	} `toml:"robots"`

	Network struct {
		AllowNet []string `toml:"allow_net" is:"network" flag:"mfetch --allow-net, mmerge split --allow-net" doc:"special-purpose networks, or addresses of this machine, that may be contacted, as CIDR" like:"[\"10.0.0.0/8\"]"`
		Deny     string   `toml:"deny" path:"yes" flag:"mfetch --deny" doc:"file of hosts never to be contacted, read again when it changes" like:"\"deny.txt\""`
	} `toml:"network"`

	Resolve struct {
		Servers   []string `toml:"servers" is:"server" flag:"mresolve --server, mfetch --server" doc:"DNS servers: ADDR or ADDR:PORT" like:"[\"192.0.2.53\"]"`
		Rate      float64  `toml:"rate" is:"rate" flag:"mresolve --rate" doc:"questions a second to one server, of all shards together; 0: any number" like:"200"`
		MinTTL    string   `toml:"min_ttl" is:"time 1ms" flag:"mresolve --min-ttl" doc:"shortest time that an answer is kept" like:"\"1m\""`
		MaxTTL    string   `toml:"max_ttl" is:"time 1ms" flag:"mresolve --max-ttl" doc:"longest time that an answer is kept" like:"\"24h\""`
		Canonical bool     `toml:"canonical" doc:"links to a host that is an alias (CNAME) lead to its canonical name, if that is of the same domain, so that pages are fetched under one name; hosts of one domain that share such a name but have pages of their own are lost (mresolve canon); filter rules that name hosts must allow the canonical names, too" like:"false"`
	} `toml:"resolve"`

	Extract struct {
		Filter         string   `toml:"filter" path:"yes" word:"default" flag:"mextract --filter, mfrontier next --filter, mfrontier plan --filter" doc:"file of filter rules, or default: those that are shipped, against traps; without it every link is followed; URLs that wait are judged by it, too" like:"\"default\""`
		IgnoreNofollow bool     `toml:"ignore_nofollow" flag:"mextract --ignore-nofollow" doc:"follow links marked nofollow" like:"false"`
		From           []string `toml:"from" is:"default|all|headers|html|css|sitemap|feed|robots|pdf|ftp|gopher|text|json|xml|script" flag:"mextract --from" doc:"what links are taken from: default, or a list of headers, html, css, sitemap, feed, robots, pdf, ftp, gopher, text, json, xml, script" like:"[\"default\"]"`
		Duplicates     bool     `toml:"duplicates" flag:"mextract --duplicates" doc:"search all duplicate documents for links, not only style sheets" like:"false"`
		Modules        []string `toml:"modules" list:"whole" is:"module" runs:"module" flag:"mextract --module" doc:"processing modules: NAME, NAME=TYPE,TYPE, NAME=TYPE,TYPE:COMMAND, or with \"stay \" before a COMMAND that stays; pipelines keep what they find in rounds/rN/modules.arrows.zst" like:"[\"page\", \"words=text/html,text/plain:wc -w\"]"`
		ModuleState    []string `toml:"module_state" flag:"mextract --module-state" doc:"those of them that keep a state over the whole crawl, in modules/NAME: tags, image or a command; after a change, mckpt init makes the stores that are missing" like:"[\"tags\"]"`
		ModuleTimeout  string   `toml:"module_timeout" is:"time 1ms" flag:"mextract --module-timeout" doc:"time that a module's command gets for one document" like:"\"10s\""`
	} `toml:"extract"`

	Focus struct {
		Model    string `toml:"model" path:"yes" flag:"mfocus score --model, mfocus explain --model, mextract --model" doc:"model of the topics that the crawl is about (mfocus train): each page gets its relevance as score, and so do its links, moved by their texts; not with policies opic and walk" like:"\"mouse.model\""`
		Distill  int    `toml:"distill" is:"whole 0" doc:"after every round with this number or a multiple of it, mcrawl run raises the waiting URLs that good hubs link to (mfocus distill); needs several front queues; 0: never" like:"0"`
		Patience int    `toml:"patience" is:"whole 0" doc:"mcrawl run stops when this many rounds in a row have no relevant page; needs focus.model; 0: never" like:"0"`
	} `toml:"focus"`

	Engine struct {
		On   string `toml:"on" is:"local|slurm|spark" doc:"what runs the tasks of a crawl of several shards: local (this machine), slurm or spark" like:"\"local\""`
		Args string `toml:"args" runs:"always" doc:"options of sbatch or pyspark, separated by spaces" like:"\"--partition=internet --time=1:00:00\""`
		Bin  string `toml:"bin" runs:"always" doc:"mcrawl as the machines of the engine see it, beside the other commands; where it is not set, as this machine does" like:"\"/shared/mercator/bin/mcrawl\""`
	} `toml:"engine"`
}

// Target is a flag of a command: {"mfetch", "", "min-delay"} or {"mfrontier", "next", "number"}.
// With Verb "" it is the flag of every verb of the command.
type Target struct{ Command, Verb, Flag string }

// Key describes one setting.
type Key struct {
	Name  string // "politeness.min_delay"
	Doc   string
	Like  string // an example, in TOML; where the setting has a default, that
	Path  bool   // the value is a file's name, or several
	Word  string // a value that is no file's name although Path is set; "" if there is none
	Fixed bool   // it counts when the crawl is made, and not later
	Crawl string // what Lookup gives in a crawl folder whose crawl.toml does not set it; "": nothing

	typ   reflect.Type
	flags string // Targets, as the tag has them
	is    string // what a value is, see check
	runs  string // how it names programs, see plain; "": it does not
	whole bool   // a list: what follows "=" or ":" may hold commas
}

// Keys lists all settings, in the order of File.
func Keys() []Key { return slices.Clone(allKeys()) }

// allKeys reads the tags once: Lookup is asked for every flag of a command.
var allKeys = sync.OnceValue(func() []Key { return keysOf(reflect.TypeOf(File{}), Key{}, "") })

// keysOf lists the settings of a struct. of has what they have in common, verb the command that has
// a flag of the name of each.
func keysOf(t reflect.Type, of Key, verb string) (keys []Key) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get
		k := Key{Name: of.Name + tag("toml"), Doc: tag("doc"), Like: tag("like"), Path: tag("path") != "", Word: tag("word"), Fixed: of.Fixed || tag("fixed") != "", Crawl: tag("crawl"),
			typ: f.Type, flags: tag("flag"), is: tag("is"), runs: tag("runs"), whole: tag("list") == "whole"}
		switch {
		case f.Anonymous:
			of := Key{Name: of.Name, Fixed: k.Fixed}
			if group := tag("group"); group != "" {
				of.Doc = small(group) + " "
			}
			keys = append(keys, keysOf(f.Type, of, cmp.Or(k.flags, verb))...)
			continue
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, keysOf(f.Type, Key{Name: k.Name + "."}, "")...)
			continue
		case verb != "": // a flag of its own
			k.flags = cmp.Or(k.flags, verb+" --"+strings.ReplaceAll(tag("toml"), "_", "-"))
			k.Doc, k.Like = of.Doc+strings.TrimSuffix(small(tag("help")), "."), tag("placeholder")
			if f.Type.Kind() == reflect.String {
				k.Like = strconv.Quote(k.Like)
			}
		}
		keys = append(keys, k)
	}
	return keys
}

// Targets are the flags that take the setting for their default.
func (k Key) Targets() (targets []Target) {
	for _, s := range strings.Split(k.flags, ", ") {
		switch w := strings.Fields(s); len(w) {
		case 2:
			targets = append(targets, Target{w[0], "", strings.TrimPrefix(w[1], "--")})
		case 3:
			targets = append(targets, Target{w[0], w[1], strings.TrimPrefix(w[2], "--")})
		}
	}
	return targets
}

// Choices lists the values of a setting that takes one of a few words; nil: any other.
func (k Key) Choices() []string {
	if k.IsSwitch() {
		return []string{"true", "false"}
	}
	if words := strings.Split(k.is, "|"); len(words) > 1 {
		return words
	}
	return nil
}

// IsSwitch reports whether the setting is true or false.
func (k Key) IsSwitch() bool { return k.typ.Kind() == reflect.Bool }

// small is a text as it goes on in a sentence.
func small(text string) string {
	if len(text) > 1 && text[1] >= 'a' {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// Config is a crawl.toml that was read.
type Config struct {
	Path string
	File File
	set  map[string]any // by key, those that the file sets
}

// maxFile bounds crawl.toml, in bytes.
const maxFile = 1 << 20

// Load reads and checks path. Errors are fault.Usage with file and line.
func Load(path string) (*Config, error) {
	open := os.Open
	if filepath.Base(path) == Name { // a crawl folder's; one that is named otherwise may come down a pipe
		open = durable.Open
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "no such file", Want: "a configuration, such as the crawl.toml that mckpt init makes", Err: err, Hint: hintLost(path)}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if (&Config{Path: path}).ofCrawl() {
		if err := owned(path); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, &fault.Error{Class: fault.Usage, File: path, Found: "a longer file", Want: fmt.Sprintf("at most %d bytes", maxFile)}
	}
	if last := lastRead.Load(); last != nil && last.conf.Path == path && bytes.Equal(last.text, b) {
		return last.conf, nil
	}
	c, err := parse(path, b)
	if err == nil {
		lastRead.Store(&read{b, c})
	}
	return c, err
}

// read is a file that was read, with its text: each command of a round asks for the same.
type read struct {
	text []byte
	conf *Config
}

var lastRead atomic.Pointer[read]

// bom begins a text that some editors wrote.
var bom = []byte("\ufeff")

func parse(path string, b []byte) (*Config, error) {
	b = bytes.TrimPrefix(b, bom)
	c := &Config{Path: path}
	d := toml.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c.File); err != nil {
		return nil, explain(path, err)
	}
	if name, line := otherCase(b); name != "" {
		return nil, unknown(path, name, line, nil)
	}
	if err := toml.Unmarshal(b, &c.set); err != nil {
		return nil, explain(path, err)
	}
	for _, k := range allKeys() {
		v, _ := c.get(k.Name)
		if at := strings.IndexFunc(fmt.Sprint(v), unseen); at >= 0 {
			return nil, &fault.Error{Class: fault.Usage, File: path, Place: k.Name, Found: fmt.Sprintf("the character %+q", []rune(fmt.Sprint(v)[at:])[0]), Want: "text that shows as it is"}
		}
	}
	return c, nil
}

// unseen says whether a character makes a setting look other than it is, where it is printed.
func unseen(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' || Turns(r) }

// Turns says whether a character changes the direction or the line of the text after it: line and paragraph separators, and the directional embeddings, overrides
// and isolates of Unicode (UAX 9).
func Turns(r rune) bool {
	return r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func explain(path string, err error) error {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		line, _ := e.Position()
		name := strings.Join(e.Key(), ".")
		return unknown(path, name, line, err)
	}
	if de, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := de.Position()
		place := fmt.Sprintf("line %d", line)
		name := strings.Join(de.Key(), ".")
		if strings.Contains(de.Error(), " already ") {
			return &fault.Error{Class: fault.Usage, File: path, Place: place, Found: fmt.Sprintf("%q a second time", name), Want: "each table and each key once"}
		}
		if want := wanted(name); want != "" {
			// The decoder's own text shows our struct.
			return &fault.Error{Class: fault.Usage, File: path, Place: place, Found: fmt.Sprintf("another type of value for %q", name), Want: want}
		}
		return &fault.Error{Class: fault.Usage, File: path, Place: place, Found: strings.TrimPrefix(de.Error(), "toml: "), Hint: form(de.Error())}
	}
	return &fault.Error{Class: fault.Usage, File: path, Err: err}
}

// form is the hint for a text that is no TOML: how to write what the decoder stopped at; "" where its words say enough.
func form(err string) string {
	const quotes = "put text in quotes, as in min_delay = \"1s\""
	for _, f := range []struct{ says, hint string }{
		{"keyword", quotes}, {"quoted", quotes}, {"start of value", quotes},
		{"table name", "a table stands in brackets, as in [politeness]"},
		{"array", "a list stands in brackets, its texts in quotes, as in seeds = [\"seeds.txt\"]"},
		{" key", "a setting is a key, = and a value, as in batch = 500"},
	} {
		if strings.Contains(err, f.says) {
			return f.hint
		}
	}
	return ""
}

func unknown(path, name string, line int, err error) error {
	return &fault.Error{
		Class: fault.Usage, File: path, Place: fmt.Sprintf("line %d", line),
		Found: fmt.Sprintf("unknown key %q", name), Hint: fmt.Sprintf("did you mean %q?", nearest(name)), Err: err,
	}
}

// otherCase finds the first name of a file that decodes which is a setting's or a table's but for
// capitals: TOML tells them apart, and the decoder does not.
func otherCase(b []byte) (name string, line int) {
	var p unstable.Parser
	p.Reset(b)
	var find func(e *unstable.Node, table string) bool
	find = func(e *unstable.Node, table string) bool {
		name = table
		var last unstable.Range
		for key := e.Key(); key.Next(); {
			name = strings.TrimPrefix(name+"."+string(key.Node().Data), ".")
			last = key.Node().Raw
		}
		if wanted(name) == "" {
			line = p.Shape(last).Start.Line // counts from the start of the file
			return true
		}
		if e.Kind == unstable.KeyValue && e.Value().Kind == unstable.InlineTable {
			inner := name
			for in := e.Value().Children(); in.Next(); {
				if in.Node().Kind == unstable.KeyValue && find(in.Node(), inner) {
					return true
				}
			}
		}
		return false
	}
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.KeyValue && find(e, table) || e.Kind == unstable.Table && find(e, "") {
			return name, line
		}
		if e.Kind == unstable.Table {
			table = name
		}
	}
	return "", 0
}

// wanted says in words what kind of value a key takes; "" if there is no such key.
func wanted(name string) string {
	t := reflect.TypeOf(File{})
	for part := range strings.SplitSeq(name, ".") {
		if t.Kind() != reflect.Struct {
			return ""
		}
		f, ok := t.FieldByNameFunc(func(field string) bool {
			f, _ := t.FieldByName(field)
			return f.Tag.Get("toml") == part
		})
		if !ok {
			return ""
		}
		t = f.Type
	}
	switch t.Kind() {
	case reflect.Struct:
		return "a table, [" + name + "]"
	case reflect.String:
		return `text in quotes, such as "1s"`
	case reflect.Slice:
		return `a list of texts, such as ["a", "b"]`
	case reflect.Bool:
		return "true or false"
	case reflect.Pointer, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// nearest is the known key with the least edit distance; before others comes one
// that has the same name in a table, or in another one.
func nearest(name string) string {
	if small := strings.ToLower(name); small != name && wanted(small) != "" {
		return small
	}
	keys := Keys()
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, k := range keys {
		if k.Name != name && k.Name[strings.LastIndexByte(k.Name, '.')+1:] == last {
			return k.Name
		}
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return fault.Nearest(name, names)
}

// meant is the hint for a name that is no key.
func meant(name string) string {
	near := nearest(name)
	if fault.DidYouMean(name, []string{near}) == "" && !strings.HasSuffix(near, name[strings.LastIndexByte(name, '.')+1:]) {
		return Name + " explains all settings"
	}
	return fmt.Sprintf("did you mean %q?", near)
}

// Lookup returns the value that the file sets for a command's flag, or that a crawl
// folder has without; found is false where there is none. Values are strings, int64, float64, bool or []any.
// File names are relative to the folder of crawl.toml.
func (c *Config) Lookup(command, verb, flag string) (value any, found bool) {
	k, found := KeyOfFlag(command, verb, flag)
	if !found {
		return nil, false
	}
	if value, found = c.value(k); !found && k.Crawl != "" && c.ofCrawl() {
		return k.Crawl, true
	}
	return value, found
}

// KeyOfFlag finds the setting that is the default of a command's flag.
func KeyOfFlag(command, verb, flag string) (Key, bool) {
	for _, k := range allKeys() {
		if !strings.Contains(k.flags, "--"+flag) { // most have not
			continue
		}
		for _, t := range k.Targets() {
			if t.Command == command && t.Flag == flag && (t.Verb == "" || t.Verb == verb) {
				return k, true
			}
		}
	}
	return Key{}, false
}

// ofCrawl reports whether the file is a crawl folder's.
func (c *Config) ofCrawl() bool {
	return filepath.Base(c.Path) == Name && isFile(filepath.Join(filepath.Dir(c.Path), "CURRENT"))
}

// value is a setting as the file has it, names of files made relative to the
// working directory.
func (c *Config) value(k Key) (v any, found bool) {
	v, found = c.get(k.Name)
	if !k.Path {
		return v, found
	}
	switch names := v.(type) {
	case string:
		if names == k.Word {
			return v, found
		}
		return c.join(names), found
	case []any:
		var joined []any
		for _, name := range names {
			joined = append(joined, c.join(name.(string))) // parse has seen that it is text
		}
		return joined, found
	}
	return v, found
}

func (c *Config) join(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.Path), name)
}

// Setting returns the values of a key, as text; none where the file does not set
// it. An unknown key is fault.Usage.
func (c *Config) Setting(name string) ([]string, error) {
	k, err := KeyOf(name)
	if err != nil {
		return nil, err
	}
	switch v, _ := c.value(k); v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		var list []string
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
		return list, nil
	default:
		return []string{fmt.Sprint(v)}, nil
	}
}

// CheckPaths refuses (fault.Usage) a relative name of a file that folder does not
// have, where crawl.toml is or is going to be copied to. It looks at the settings of these names, or at all.
func (c *Config) CheckPaths(folder string, only ...string) error {
	moved := &Config{Path: filepath.Join(folder, Name), set: c.set}
	for _, k := range allKeys() {
		if !k.Path || len(only) > 0 && !slices.Contains(only, k.Name) {
			continue
		}
		names, err := moved.Setting(k.Name)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name != "" && name != k.Word && !isFile(name) {
				if given, _ := c.get(k.Name); filepath.IsAbs(name) && strings.Contains(fmt.Sprint(given), name) {
					return &fault.Error{Class: fault.Usage, File: c.Path, Place: k.Name, Found: "no file " + name, Want: "one that is there", Hint: "write that file first, or correct its name"}
				}
				return &fault.Error{Class: fault.Usage, File: c.Path, Place: k.Name, Found: "no file " + name, Want: "a name relative to the crawl folder, or an absolute one",
					Hint: "crawl.toml is copied into the crawl folder, and counts there"}
			}
		}
	}
	return nil
}

// Outside lists the files that settings name and that are not in folder, where crawl.toml is; and those in it whose names are absolute,
// so that they are of no use in a copy.
func (c *Config) Outside(folder string) (outside, absolute []string, err error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range allKeys() {
		if !k.Path {
			continue
		}
		names, err := c.Setting(k.Name)
		if err != nil {
			return nil, nil, err
		}
		written, _ := c.get(k.Name)
		for _, name := range names {
			if name == "" || name == k.Word {
				continue
			}
			full, err := filepath.Abs(name)
			if err != nil {
				return nil, nil, err
			}
			if rel, err := filepath.Rel(root, full); err != nil || !filepath.IsLocal(rel) {
				outside = append(outside, name)
			} else if list, _ := written.([]any); filepath.IsAbs(name) && (written == name || slices.Contains(list, any(name))) {
				absolute = append(absolute, name)
			}
		}
	}
	return outside, absolute, nil
}

func (c *Config) get(name string) (any, bool) {
	var v any = c.set
	for _, part := range strings.Split(name, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[part]; !ok {
			return nil, false
		}
	}
	return v, true
}

// Name is the configuration's file name in a crawl folder.
const Name = "crawl.toml"

// Find returns the crawl.toml of the crawl folder that one of the paths lies
// in, as a store of it or of a shard of it, or is, or "". A crawl folder holds a file CURRENT beside its crawl.toml.
func Find(paths []string) string {
	for _, p := range paths {
		for _, dir := range []string{p, filepath.Dir(filepath.Clean(p)), filepath.Dir(filepath.Dir(filepath.Clean(p))), store.Folder(p, store.Options{}).CrawlDir()} {
			if dir != "" && isFile(filepath.Join(dir, "CURRENT")) && isFile(filepath.Join(dir, Name)) && isDir(p) {
				return filepath.Join(dir, Name)
			}
		}
	}
	return ""
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

func isDir(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode()&fs.ModeDir != 0
}
