package frontier

// Dynamic is policy dynamic, which has no parameters: fair service from one queue.
type Dynamic struct{}

func (*Dynamic) about() about {
	return about{budgets: true, virtualTime: true, text: "one queue; hosts in turn, whatever the priority; within a host first in, first out"}
}

func (*Dynamic) complete() error { return nil }

func (*Dynamic) policy(*Params) hooks { return fair{} }
