package flows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/theory/jsonpath/spec"

	"github.com/oncegate/oncegate/idempotency"
)

func (c *checker) payload(f *Flow, y *payloadYAML) {
	if y == nil {
		return
	}
	if !slices.Contains(decoders, y.Decode) {
		c.fail("payload.decode", "%q is not known; use %s", y.Decode, strings.Join(decoders, ", "))
	}
	if p, ok := c.path("payload.path", y.Path); ok {
		f.payload = &wrapped{p, y.Decode}
	}
}

func (c *checker) content(f *Flow, y *contentYAML) {
	if y == nil {
		return
	}
	r := &reference{bucket: y.Bucket}
	r.object, _ = c.path("content.object", y.Object)
	if y.SHA256 == "" && y.VersionID == "" {
		c.fail("content", "needs sha256 or version_id: an object may change under its name")
	}
	for field, text := range map[string]string{"content.sha256": y.SHA256, "content.version_id": y.VersionID} {
		if text == "" {
			continue
		}
		if p, ok := c.path(field, text); ok {
			if field == "content.sha256" {
				r.sha256 = &p
			} else {
				r.versionID = &p
			}
		}
	}
	f.content = r
}

func (c *checker) effects(f *Flow, all []effectYAML) {
	for i, y := range all {
		field := fmt.Sprintf("effects[%d]", i)
		if y.Name != "" {
			field = "effects." + y.Name
		}
		d := &DeclaredEffect{Uses: y.Uses}
		d.Name, d.Timeout = c.need(field+".name", y.Name), DefaultEffectTimeout
		if f.Effect(y.Name) != nil {
			c.fail(field, "is declared twice")
		}
		if effectConstructors[y.Uses] == nil {
			c.fail(field+".uses", "there is no effect %q; there are %s", y.Uses, strings.Join(slices.Sorted(maps.Keys(effectConstructors)), ", "))
		} else if _, readable := effectConstructors[y.Uses](Tools{}).(Reader); y.Kind == string(idempotency.TargetReadable) && !readable {
			c.fail(field+".kind", "effect %s cannot look anything up", y.Uses)
		}
		d.Kind = idempotency.TargetKind(y.Kind)
		known := slices.Contains(idempotency.TargetKinds, d.Kind)
		if !known {
			c.fail(field+".kind", "must be idempotent, readable or opaque: say what the target does about a second copy of a request")
		}
		d.Timeout = c.duration(field+".timeout", y.Timeout, DefaultEffectTimeout)
		d.KeyTTL = c.duration(field+".key_ttl", y.KeyTTL, 0)
		d.VisibleAfter = c.duration(field+".visible_after", y.VisibleAfter, 0)
		if known && d.KeyTTL > 0 && d.Kind != idempotency.TargetIdempotent {
			c.fail(field+".key_ttl", "belongs to idempotent targets")
		}
		if known && d.VisibleAfter > 0 && d.Kind != idempotency.TargetReadable {
			c.fail(field+".visible_after", "belongs to readable targets")
		}
		if construct := effectConstructors[y.Uses]; construct != nil {
			if n, ok := construct(Tools{}).(Needs); ok {
				for _, name := range n.Needs() {
					if _, given := y.Fields[name]; !given {
						c.fail(field+".fields."+name, "is missing: effect %s needs it", y.Uses)
					}
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(y.Fields)) {
			c.effectField(d, field+".fields."+name, name, y.Fields[name])
		}
		f.Effects = append(f.Effects, d)
	}
}

func (c *checker) duration(field, text string, fallback time.Duration) time.Duration {
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		c.fail(field, "must be a positive duration such as 10s")
		return fallback
	}
	return d
}

func (c *checker) effectField(d *DeclaredEffect, field, name string, y keyYAML) {
	switch {
	case name == "task_key" || name == "effect":
		c.fail(field, "is a name that every effect key has already")
	case (y.Const == nil) == (y.Path == ""):
		c.fail(field, "needs either const or path")
	case y.Const != nil:
		d.fields = append(d.fields, keyField{name: name, constant: *y.Const})
	default:
		if p, ok := c.path(field, y.Path); ok {
			d.fields = append(d.fields, keyField{name: name, path: &p, sensitive: y.Sensitive})
		}
	}
}

// suspect refuses fields that do not name a business, by what they are called.
func (c *checker) suspect(field string, y keyYAML, p path, name string) (named bool) {
	last := name
	for _, step := range slices.Backward(p.steps) {
		if member, ok := step.(spec.Name); ok {
			last = string(member)
			break
		}
	}
	if len(p.steps) == 1 && envelopeOnly[last] != "" {
		c.fail(field, "%q %s", p.text, envelopeOnly[last])
		return false
	}
	if strings.TrimSpace(y.Because) != "" {
		return false
	}
	if reason := suspicion(y.Sensitive, name, last); reason != "" {
		c.fail(field, "%q %s; if it is meant as it is, say why with because: TEXT", p.text, reason)
	}
	return nameLike(name, last) || tenantLike(name, last)
}

func (c *checker) key(f *Flow, key map[string]keyYAML) {
	if len(key) == 0 {
		c.fail("key", "is missing: name the fields that make one business action")
	}
	paths, weak := 0, 0
	for _, name := range slices.Sorted(maps.Keys(key)) {
		field, y := "key."+name, key[name]
		switch {
		case (y.Const == nil) == (y.Path == ""):
			c.fail(field, "needs either const or path")
		case y.Const != nil && strings.TrimSpace(*y.Const) == "":
			c.fail(field, "const is empty")
		case y.Const != nil && y.Sensitive:
			c.fail(field, "a constant cannot be sensitive")
		case y.Const != nil:
			f.key = append(f.key, keyField{name: name, constant: *y.Const})
		default:
			if p, ok := c.path(field, y.Path); ok {
				f.key = append(f.key, keyField{name: name, path: &p, sensitive: y.Sensitive})
				if c.suspect(field, y, p, name) {
					weak++
				}
			}
			paths++
		}
	}
	if len(key) > 0 && paths == 0 {
		c.fail("key", "has constants alone: every event would be the same business")
	}
	if paths > 0 && weak == paths {
		c.fail("key", "is made of names, dates or file names alone: add the number that the business gives it, or say why with because: TEXT")
	}
}
