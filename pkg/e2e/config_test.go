package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mercator/pkg/base/must"
	"mercator/pkg/cli/clitest"
	"mercator/pkg/config"
)

// settings has for each key of crawl.toml a value that no flag has by default,
// as TOML and as the flag shows it.
var settings = map[string][2]string{
	"seeds":               {`["s.txt"]`, ""},
	"batch":               {`7`, "7"},
	"bare_seeds":          {`["seven.example"]`, ""},
	"rounds":              {`7`, ""},
	"checkpoint_interval": {`"7s"`, "7s"},
	"sheets":              {`"sheets.txt"`, "FOLDER/sheets.txt"},
	"push":                {`"/seven"`, ""},
	"focus.distill":       {`7`, ""},
	"focus.patience":      {`7`, ""},
	"engine.on":           {`"slurm"`, ""},
	"engine.args":         {`"--seven"`, ""},
	"engine.bin":          {`"/seven"`, ""},
	"schemes":             {`["http", "gemini:7"]`, "[http gemini:7]"},
	"fetch.exec":          {`["http=fetch.sh"]`, "[http=fetch.sh]"},
	"fetch.exec_state":    {`["http"]`, "[http]"},
	"fetch.contact":       {`"me@example.org"`, "me@example.org"},
	"memory.fetch":        {`"77M"`, "80740352"},
	"memory.stages":       {`"77M"`, "80740352"},
	"memory.total":        {`"770M"`},
	"sets.polynomial":     {`"d800000000000000"`, "d800000000000000"},
	"frontier.policy":     {`"seven"`, "seven"},
	"frontier.queues":     {`7`, "7"},
	"frontier.bias":       {`7.5`, "7.5"},
	"frontier.strict":     {`true`, "true"},
	"frontier.seed":       {`7`, "7"},
	"frontier.workers":    {`7`, "7"},
	"frontier.buffer":     {`100`, "100"},
	"frontier.tax":        {`0.7`, "0.7"},
	"frontier.refetch":    {`"7h"`, "7h"},
	"frontier.walkers":    {`7`, "7"},
	"frontier.restart":    {`0.7`, "0.7"},

	"frontier.new_share":    {`0.7`, "0.7"},
	"frontier.min_interval": {`"7h"`, "7h"},
	"frontier.max_interval": {`"77h"`, "77h"},
	"frontier.gone_after":   {`7`, "7"},

	"frontier.per_host":            {`7`, "7"},
	"frontier.per_domain":          {`7`, "7"},
	"frontier.max_host_bytes":      {`"7K"`, "7168"},
	"round_time":                   {`"7m"`, "7m0s"},
	"frontier.max_attempts":        {`7`, "7"},
	"frontier.retry_delay":         {`"7s"`, "7s"},
	"frontier.dead_after":          {`7`, "7"},
	"frontier.dead_delay":          {`"7h"`, "7h0m0s"},
	"frontier.max_depth":           {`7`, "7"},
	"frontier.max_host_urls":       {`7`, "7"},
	"frontier.domain_budget":       {`7`, "7"},
	"frontier.domain_growth":       {`7.5`, "7.5"},
	"frontier.prioritizer":         {`"seven"`, "seven"},
	"frontier.prioritizer_timeout": {`"7s"`, "7s"},
	"politeness.min_delay":         {`"7ms"`, "7ms"},
	"politeness.delay_factor":      {`7`, "7"},
	"politeness.max_delay":         {`"7m"`, "7m0s"},
	"politeness.addr_delay":        {`"7ms"`, "7ms"},
	"politeness.longest_wait":      {`"7h"`, "7h0m0s"},
	"fetch.connections":            {`7`, "7"},
	"fetch.timeout":                {`"7s"`, "7s"},
	"fetch.connect_timeout":        {`"7s"`, "7s"},
	"fetch.max_body":               {`"7K"`, "7168"},
	"fetch.user_agent":             {`"seven"`, "seven"},
	"fetch.warc_codec":             {`"zstd"`, "zstd"},
	"fetch.warc_prefix":            {`"seven"`, "seven"},
	"fetch.warc_size":              {`"7M"`, "7340032"},
	"fetch.dedup":                  {`true`, "true"},
	"fetch.warc_block_digest":      {`true`, "true"},
	"fetch.assign":                 {`"static"`, "static"},
	"fetch.method":                 {`"HEAD"`, "HEAD"},
	"fetch.headers":                {`["Accept-Language: de, en;q=0.5", "DNT: 1"]`, "[Accept-Language: de, en;q=0.5 DNT: 1]"},
	"fetch.tls_ca":                 {`"ca.pem"`, "FOLDER/ca.pem"},
	"fetch.login":                  {`"login.txt"`, "FOLDER/login.txt"},
	"fetch.cookies":                {`false`, "false"},
	"fetch.proxy":                  {`"socks5://127.0.0.1:7"`, "socks5://127.0.0.1:7"},
	"fetch.refused_ok":             {`true`, "true"},
	"fetch.tls_insecure":           {`true`, "true"},
	"robots.keep":                  {`"7m"`, "7m0s"},
	"robots.engine":                {`"temoto"`, "temoto"},
	"network.allow_net":            {`["127.0.0.0/8", "::1/128"]`, "[127.0.0.0/8 ::1/128]"},
	"network.deny":                 {`"deny.txt"`, "FOLDER/deny.txt"},
	"resolve.servers":              {`["127.0.0.1:7", "127.0.0.2:7"]`, "[127.0.0.1:7 127.0.0.2:7]"},
	"resolve.rate":                 {"12.5", "12.5"},
	"resolve.min_ttl":              {`"7s"`, "7s"},
	"resolve.max_ttl":              {`"7h"`, "7h0m0s"},
	"resolve.canonical":            {`true`, ""},
	"extract.filter":               {`"filter.txt"`, "FOLDER/filter.txt"},
	"urls.max_url":                 {`777`, "777"},
	"urls.key_rules":               {`["www", "query-order"]`, "[www query-order]"},
	"urls.url_rules":               {`["tracking"]`, "[tracking]"},
	"focus.model":                  {`"seven.model"`, "FOLDER/seven.model"},
	"extract.ignore_nofollow":      {`true`, "true"},
	"extract.from":                 {`["html", "text"]`, "[html text]"},
	"extract.duplicates":           {`true`, "true"},
	"extract.modules":              {`["page", "tags=text/html"]`, "[page tags=text/html]"},
	"extract.module_state":         {`["tags"]`, "[tags]"},
	"extract.module_timeout":       {`"7s"`, "7s"},
	"render.pages":                 {`"all"`, "all"},
	"render.filter":                {`"render.txt"`, "FOLDER/render.txt"},
	"render.browser":               {`"/seven"`, "/seven"},
	"render.browsers":              {`7`, "7"},
	"render.memory":                {`"777M"`, "814743552"},
	"render.wait":                  {`"7s"`, "7s"},
	"render.timeout":               {`"7s"`, "7s"},
	"render.requests":              {`7`, "7"},
	"render.bytes":                 {`"7M"`, "7340032"},
	"render.attempts":              {`7`, "7"},
	"render.scroll":                {`7`, "7"},
	"render.more":                  {`7`, "7"},
	"render.screenshot":            {`true`, "true"},
	"sets.content_hash":            {`"sha256"`, "sha256"},
	"sets.mode":                    {`"online"`, "online"},
	"sets.urls":                    {`"bloom"`, "bloom"},
	"sets.content":                 {`"bloom"`, "bloom"},
	"stages.seen":                  {`"seven"`, "seven"},
	"stages.content":               {`"seven"`, "seven"},
	"stages.resolve":               {`"seven"`, "seven"},
	"stages.links":                 {`"seven"`, "seven"},
	"stages.new":                   {`"seven"`, "seven"},
	"stages.timeout":               {`"7s"`, "7s"},
	"sets.bloom_size":              {`"7K"`, "7168"},
}

// verbs are run to see their flags, with arguments that let them begin; what
// they then do with a store that is not there does not matter.
var verbs = map[string][]string{
	"mfrontier create": {}, "mfrontier next": {}, "mfrontier plan": {}, "mfrontier update": {"--outcomes", "o", "--links", "l"}, "mfrontier add": {}, "mfrontier raise": {},
	"mfetch fetch": {}, "mfetch audit": {}, "mfetch create": {}, "mresolve resolve": {}, "mresolve names": {}, "mresolve canon": {}, "mextract links": {}, "mextract explain": {"http://a.test/"}, "mextract resolve": {}, "mextract filter": {},
	"murlset new": {}, "murlset add": {}, "murlset test": {}, "murlset build": {"-o", "x.fps"}, "murlset key": {}, "murlset create": {}, "mfpset mark": {}, "mfpset create": {},
	"mckpt commit": {"--txn", "r1"}, "mckpt init": {}, "mfocus score": {}, "mfocus explain": {"x.html"}, "mfocus distill": {},
	"mrender links": {"--outcomes", "o", "--warc", "."},
	"mcat":          {}, "mmerge split": {"-o", "x", "--buckets", "7"}, "mfocus urls": {}, "mfocus passages": {"--query", "a"}, "mfocus train": {"-o", "x.model", "--others"},
}

// keysOf are the settings of the flags of each verb, by "command verb" and flag: all flags that have the setting's tags. To read them takes a tenth
// of a second.
var keysOf = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, c := range values {
		for verb, flags := range clitest.Settings(c) {
			all[c.Name+" "+verb] = flags
		}
	}
	return all
})

// Every setting of crawl.toml is the default of the flags that it says, with its
// value; the others are read by the pipelines.
func TestSettingsReachTheirFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "crawl.toml")
	for _, name := range []string{"filter.txt", "render.txt", "deny.txt", "login.txt"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	var top, tables, pipelines []string
	for _, k := range config.Keys() {
		v, ok := settings[k.Name]
		if !ok {
			t.Errorf("%s: the test has no value for it", k.Name)
			continue
		}
		if table, key, ok := strings.Cut(k.Name, "."); ok {
			tables = append(tables, table+"."+key+" = "+v[0])
		} else {
			top = append(top, k.Name+" = "+v[0])
		}
		pipelines = append(pipelines, k.Name)
	}
	must.OK(t, os.WriteFile(file, []byte(strings.Join(append(top, tables...), "\n")), 0o666))
	for name, flags := range keysOf() {
		for _, key := range flags {
			pipelines = slices.DeleteFunc(pipelines, func(k string) bool { return k == key })
		}
		args, ok := verbs[name]
		if !ok {
			if _, memory := flags["memory"]; len(flags) > 1 || len(flags) == 1 && !memory {
				t.Errorf("the test cannot run %s, which has %v", name, flags)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			stats := filepath.Join(t.TempDir(), "stats.json")
			words := strings.Fields(name)
			args := append(append(words[1:len(words):len(words)], args...), filepath.Join(dir, "nothing", words[0]), "--config", file, "--stats", stats)
			cmd := exec.Command(bin+words[0], args...)
			out, _ := cmd.CombinedOutput() // it fails: there is no store
			b, err := os.ReadFile(stats)
			if err != nil {
				t.Fatalf("%s %q: %v\n%s", words[0], args, err, out)
			}
			var s struct{ Flags map[string]string }
			must.OK(t, json.Unmarshal(b, &s))
			for flag, key := range flags {
				want := strings.ReplaceAll(settings[key][1], "FOLDER", dir)
				if got := s.Flags[flag]; got != want {
					t.Errorf("%s = %s: --%s is %q, want %q", key, settings[key][0], flag, got, want)
				}
			}
		})
	}
	if got := fmt.Sprint(pipelines); got != "[seeds bare_seeds rounds push memory.total resolve.canonical focus.distill focus.patience engine.on engine.args engine.bin]" {
		t.Errorf("settings of no command: %s", got)
	}
}

// The pipelines take seeds and rounds from crawl.toml, and the commit its interval.
func TestPipelinesReadSettings(t *testing.T) {
	t.Parallel()
	w := startWeb(t, 3, 2, 20)
	for _, pipeline := range []string{"mercator.mk", "mcrawl"} {
		t.Run(pipeline, func(t *testing.T) {
			dir := t.TempDir()
			toml := filepath.Join(dir, "my.toml")
			text := fmt.Sprintf("seeds = [%q]\nrounds = 2\nbatch = 3\ncheckpoint_interval = \"1h\"\n[politeness]\nmin_delay = \"1ms\"\naddr_delay = \"0s\"\n"+
				"delay_factor = 0\n[network]\nallow_net = [\"127.0.0.0/8\"]\n[resolve]\nservers = [%q]\n", w.seeds, w.dns)
			must.OK(t, os.WriteFile(toml, []byte(text), 0o666))
			folder := filepath.Join(dir, "crawl")
			cmd := exec.Command("make", "-f", pipeline, "CRAWL="+folder, "CONFIG="+toml, "BIN="+bin)
			if pipeline == "mcrawl" {
				output(t, "mcrawl", "new", folder, "--config", toml)
				cmd = exec.Command(bin+"mcrawl", "run", folder)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "stopped after round 2") {
				t.Fatalf("%v\n%s", err, out)
			}
			// Checkpoints: the first, of the seeds, stays; the one of round 1 is too young for an hour.
			if got := output(t, "mckpt", "list", folder, "--json"); strings.Count(got, "\n") != 2 || strings.Contains(got, `"txn":"r1"`) {
				t.Errorf("checkpoints:\n%s", got)
			}
			if got := strings.TrimSpace(output(t, "mcat", "--count", folder+"/rounds/r2/marked.arrows.zst")); got == "0" {
				t.Errorf("round 2 has no rows")
			}
		})
	}
}
