package flows

import "github.com/theory/jsonpath/spec"

// Tree builds the event as the flow's paths see it: with its payload under "data".
// Each call builds one of its own.
func (in *Input) Tree() map[string]any {
	tree := in.event.Tree()
	if in.wrapped {
		delete(tree, "data_base64")
		if delete(tree, "data"); in.data.Exists() {
			tree["data"] = in.Payload()
		}
	}
	return tree
}

// SensitivePaths are the places of key and effect fields that are marked
// sensitive, as steps of names (string) and indices (int).
func (f *Flow) SensitivePaths() [][]any {
	var all [][]any
	add := func(fields []keyField) {
		for _, k := range fields {
			if !k.sensitive || k.path == nil {
				continue
			}
			var steps []any
			for _, step := range k.path.steps {
				switch step := step.(type) {
				case spec.Name:
					steps = append(steps, string(step))
				case spec.Index:
					steps = append(steps, int(step))
				}
			}
			all = append(all, steps)
		}
	}
	add(f.key)
	for _, d := range f.Effects {
		add(d.fields)
	}
	return all
}
