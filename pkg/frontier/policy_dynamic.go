package frontier

// Dynamic is policy dynamic, which has no parameters.
type Dynamic struct{}

const dynamic = "dynamic"

func (*Dynamic) about() about {
	return about{text: "one queue; hosts in turn, whatever the priority; within a host first in, first out"}
}

func (*Dynamic) complete() error { return nil }
