package merge

func init() {
	unionKernel.steps = unionSteps
	intersectKernel.steps = intersectSteps
	diffKernel.steps = diffSteps
}

//go:noescape
func unionSteps(l *[lanes]lane, n int, u *[lanes]used)

//go:noescape
func intersectSteps(l *[lanes]lane, n int, u *[lanes]used)

//go:noescape
func diffSteps(l *[lanes]lane, n int, u *[lanes]used)
