package strictjson

// Step leads from a value to one inside it: to a member by name, or to an
// element, counted from the end where Index is negative.
type Step struct {
	Name    string
	Index   int
	Element bool // Index counts, not Name
}

// Path names at most one value inside another.
type Path []Step

// At returns the value that a path leads to.
func (v Value) At(p Path) Value {
	for _, step := range p {
		if step.Element {
			v = v.Element(step.Index)
		} else {
			v = v.Member(step.Name)
		}
	}
	return v
}

// Length is how many elements an array has, 0 for every other value.
func (v Value) Length() (n int) {
	if v.Kind() != '[' {
		return 0
	}
	c := v.Cursor()
	for c.Open(); c.More(); c.Skip() {
		n++
	}
	return n
}
