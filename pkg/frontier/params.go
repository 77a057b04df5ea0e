package frontier

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"mercator/formats/store"
	"mercator/pkg/base/fault"
	"mercator/pkg/base/setting"
)

// Params are fixed when a frontier is created. Each embedded struct is a policy: a new one is a
// line here and a file of its own. What the chosen policy has no use for must be left zero; a zero
// parameter of its own means the default.
//
// The fields are the flags of "mfrontier create" and settings of crawl.toml, as package config says. The tag placeholder is the default.
type Params struct {
	Policy string `key:"frontier.policy" default:"priority" placeholder:"priority" help:"Order of service; \"mfrontier policies\" lists them."`
	Seed   uint64 `key:"frontier.seed" placeholder:"0" help:"Seed of random draws, and of the order of equal credits."`
	Buffer int    `key:"frontier.buffer" range:"16 8192" or:"0" placeholder:"0" more:"" help:"URLs of a queue in memory, 16 to 8192; 0: 64 KiB."`

	Priority `group:"Policies priority, revisit:"`
	Dynamic  `group:"Policy dynamic:"`
	Revisit  `group:"Policy revisit:"`
	Fifo     `group:"Policy fifo:"`
	Walk     `group:"Policy walk:"`
	Opic     `group:"Policy opic:"`
}

// defaultPolicy is the policy of Params that name none.
const defaultPolicy = "priority"

// parameters are one policy's parameters, a struct that Params embeds. Its type has the policy's name.
type parameters interface {
	// about describes the policy.
	about() about
	// complete puts the defaults where nothing is given, and refuses what is out of range.
	complete() error
	// policy is the policy of complete parameters, as of a new frontier.
	policy(p *Params) hooks
}

// Policy is a policy that there is.
type Policy struct {
	Name  string
	About string
}

// Policies lists them.
func Policies() (all []Policy) {
	for _, own := range new(Params).all() {
		all = append(all, Policy{nameOf(own), own.about().text})
	}
	return all
}

// all are the parameters of each policy.
func (p *Params) all() (all []parameters) {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		if own, ok := v.Field(i).Addr().Interface().(parameters); ok {
			all = append(all, own)
		}
	}
	return all
}

func nameOf(p parameters) string { return strings.ToLower(reflect.TypeOf(p).Elem().Name()) }

// own are the parameters of the policy that p names.
func (p *Params) own() (parameters, error) {
	for _, own := range p.all() {
		if nameOf(own) == p.Policy {
			return own, nil
		}
	}
	var names []string
	for _, own := range p.all() {
		names = append(names, nameOf(own))
	}
	hint := "list those there are: mfrontier policies"
	if near := fault.DidYouMean(p.Policy, names); near != "" {
		hint = near + " " + hint
	}
	return nil, &fault.Error{Class: fault.Usage, Found: fmt.Sprintf("unknown policy %q", p.Policy), Hint: hint}
}

const maxBuffer = 1 << 13

// complete refuses what the policy has no use for and what is out of range, and puts the defaults
// where nothing is given.
func (p *Params) complete() error {
	if p.Policy == "" {
		p.Policy = defaultPolicy
	}
	own, err := p.own()
	if err != nil {
		return err
	}
	for _, other := range p.all() {
		if nameOf(other) == p.Policy || other == parameters(&p.Priority) && own.about().ranks {
			continue
		}
		for name, v := range fields(other) {
			if !v.IsZero() {
				return noUseFor(name, p.Policy, p.users(other)...)
			}
		}
	}
	if p.Seed != 0 && !own.about().seed {
		return noUseFor("seed", p.Policy, policiesWith(func(a about) bool { return a.seed })...)
	}
	for _, params := range p.used() {
		if err := inRange(params); err != nil {
			return err
		}
	}
	if own.about().ranks && own != parameters(&p.Priority) {
		if err := p.Priority.beside(); err != nil {
			return err
		}
	}
	return own.complete()
}

// users are the policies that have a use for the parameters of one.
func (p *Params) users(of parameters) []string {
	if of == parameters(&p.Priority) {
		return policiesWith(func(a about) bool { return a.ranks })
	}
	return []string{nameOf(of)}
}

func noUseFor(what, policy string, of ...string) error {
	return &fault.Error{Class: fault.Usage, Found: what + " for policy " + policy, Want: "none, or policy " + strings.Join(of, ", ")}
}

// noUseFor refuses what the policy has no use for; others have.
func (p *policy) noUseFor(what string, others func(about) bool) error {
	return noUseFor(what, p.name, policiesWith(others)...)
}

// policiesWith names the policies for which is returns true.
func policiesWith(is func(about) bool) (names []string) {
	for _, own := range new(Params).all() {
		if is(own.about()) {
			names = append(names, nameOf(own))
		}
	}
	return names
}

// Encode returns the params as the manifest keeps them: the policy's parameters, by the names of the
// settings. A zero parameter has its default, and is left out if that is zero.
// A parameter that the policy has no use for is fault.Usage, and so is one out of range.
func (p Params) Encode() (map[string]string, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	text := map[string]string{}
	put := func(params any) {
		for name, v := range fields(params) {
			if !v.IsZero() {
				text[name] = fmt.Sprint(v.Interface())
			}
		}
	}
	for _, params := range p.used() {
		put(params)
	}
	return text, nil
}

// used are the structs of parameters that the policy has a use for.
func (p *Params) used() []any {
	own, err := p.own()
	switch {
	case err != nil:
		return nil
	case own.about().ranks:
		return []any{p, &p.Priority, own}
	}
	return []any{p, own}
}

// decodeParams is the reverse of Encode.
func decodeParams(m *store.Manifest) (p *Params, own parameters, err error) {
	p = &Params{Policy: m.Params["policy"]}
	own, err = p.own()
	if err == nil {
		for _, params := range p.used() {
			for name, v := range fields(params) {
				if text, ok := m.Params[name]; ok {
					err = errors.Join(err, parse(text, v))
				}
			}
		}
	}
	if text, encodeErr := p.Encode(); err != nil || encodeErr != nil || !maps.Equal(text, m.Params) {
		return nil, nil, &fault.Error{Class: fault.Corrupt, Place: fmt.Sprintf("generation %d", m.Generation), Found: "parameters " + store.ParamsText(m.Params), Want: "those of a policy"}
	}
	return p, own, nil
}

// fields are the parameters in a struct, by the names of their settings.
func fields(params any) func(yield func(name string, v reflect.Value) bool) {
	return func(yield func(string, reflect.Value) bool) {
		v := reflect.ValueOf(params).Elem()
		for i := range v.NumField() {
			if name := strings.TrimPrefix(v.Type().Field(i).Tag.Get("key"), "frontier."); name != "" && !yield(name, v.Field(i)) {
				return
			}
		}
	}
}

// parse reads what Encode wrote.
func parse(text string, v reflect.Value) (err error) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case reflect.Int:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		v.SetUint(n)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		v.SetFloat(x)
	default:
		panic("frontier: a parameter of kind " + v.Kind().String())
	}
	return err
}

// inRange refuses what the tags of parameters do. Zero is the default.
func inRange(params any) error {
	t := reflect.TypeOf(params).Elem()
	for f := range t.Fields() {
		v := reflect.ValueOf(params).Elem().FieldByIndex(f.Index)
		if v.Kind() == reflect.Struct || v.IsZero() {
			continue
		}
		if err := setting.Check(strings.TrimPrefix(f.Tag.Get("key"), "frontier."), f.Tag, v); err != nil {
			return err
		}
	}
	return nil
}

// duration reads a parameter that is in range, and writes it as all are written.
func duration(text *string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(*text)
	if err != nil {
		d = otherwise
	}
	*text = d.String()
	return d
}
