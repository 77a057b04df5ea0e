package cli

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/alecthomas/kong"
)

// parser is a grammar with what kong made of it.
type parser struct {
	kong    *kong.Kong
	grammar any
	use     use
}

// use identifies the parsers that can replace each other: a command's name and grammar, and a pattern of left-out fields.
type use struct {
	command string
	grammar reflect.Type
	without string
}

// idle holds parsers of calls that ended well. To make one takes longer than what most commands of a small round do with it.
var (
	idle   = map[use][]*parser{}
	idleMu sync.Mutex
)

// parser makes a parser for std.args, or in a Call takes an idle one. options hold for this use only. No verb and no embedded struct of a
// grammar may be a pointer, because kong sets a pointer only once.
func (c Command) parser(std *Std, options ...kong.Option) *parser {
	grammar := c.Grammar()
	if _, ok := grammar.(interface{ common() *Common }); !ok {
		panic("grammar of " + c.Name + " does not embed cli.Common")
	}
	u := use{c.Name, reflect.TypeOf(grammar), withoutOthers(grammar, std.args)}
	idleMu.Lock()
	defer idleMu.Unlock()
	if list := idle[u]; std.call != nil && len(list) > 0 {
		p := list[len(list)-1]
		idle[u] = list[:len(list)-1]
		reflect.ValueOf(p.grammar).Elem().Set(reflect.ValueOf(grammar).Elem())
		for _, o := range options {
			_ = o.Apply(p.kong) // they set a field each
		}
		return p
	}
	k, err := kong.New(grammar, append(options,
		kong.Name(c.Name),
		kong.Description(c.About),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: wide}),
		kong.Help(printHelp),
		kong.Vars{"version": c.Name + " " + buildInfo(), "memory": fmt.Sprintf("%dM", c.Memory>>20), "memory_setting": c.Setting},
		kong.IgnoreFields(u.without),
	)...)
	if err != nil {
		panic(err)
	}
	return &parser{k, grammar, u}
}

// release makes the parser idle. Nothing of the call may use the grammar any more.
func (p *parser) release() {
	_ = kong.Visit(p.kong.Model.Node, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) { // kong sets these, and never back
		case *kong.Node:
			node.Active = false
		case *kong.Value:
			node.Active, node.Set = false, false
		}
		return next(nil)
	})
	idleMu.Lock()
	defer idleMu.Unlock()
	idle[p.use] = append(idle[p.use], p)
}
