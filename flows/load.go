package flows

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/events"
)

//go:embed flows.yaml
var embedded []byte

// DefaultMaxAttempts is the attempt budget of a flow that sets none. With the
// default back-off it outlives an outage of 50 minutes.
const DefaultMaxAttempts = 6

// DefaultEnvironment is where an event's environment is read from by default:
// the bus that EventBridge delivered it from.
const DefaultEnvironment = "$.aliyuneventbusname"

// ConfigError names the flow and the field of flows.yaml that cannot be used.
type ConfigError struct {
	Flow   string // "" for the file as a whole
	Field  string
	Reason string
}

func (e *ConfigError) Error() string {
	switch {
	case e.Flow == "":
		return fmt.Sprintf("flows: %s: %s", e.Field, e.Reason)
	case e.Field == "":
		return fmt.Sprintf("flow %q: %s", e.Flow, e.Reason)
	default:
		return fmt.Sprintf("flow %q: %s: %s", e.Flow, e.Field, e.Reason)
	}
}

type fileYAML struct {
	SchemaVersion int        `yaml:"schema_version"`
	Flows         []flowYAML `yaml:"flows"`
	Replay        Replay     `yaml:"replay"`
}

type flowYAML struct {
	Name        string             `yaml:"name"`
	Owner       string             `yaml:"owner"`
	NumberOwner string             `yaml:"number_owner"`
	Environment string             `yaml:"environment"`
	Enabled     *bool              `yaml:"enabled"`
	Match       map[string]texts   `yaml:"match"`
	Payload     *payloadYAML       `yaml:"payload"`
	Key         map[string]keyYAML `yaml:"key"`
	Input       struct {
		Ignore []string `yaml:"ignore"`
	} `yaml:"input"`
	Content          *contentYAML `yaml:"content"`
	Processor        string       `yaml:"processor"`
	ProcessorVersion string       `yaml:"processor_version"`
	Effects          []effectYAML `yaml:"effects"`
	MaxAttempts      *int64       `yaml:"max_attempts"`
	SchemaVersion    string       `yaml:"schema_version"`
	DataSchema       any          `yaml:"data_schema"`
	Sample           string       `yaml:"sample"`
}

type payloadYAML struct {
	Path   string `yaml:"path"`
	Decode string `yaml:"decode"`
}

type contentYAML struct {
	Bucket    string `yaml:"bucket"`
	Object    string `yaml:"object"`
	SHA256    string `yaml:"sha256"`
	VersionID string `yaml:"version_id"`
}

type effectYAML struct {
	Name         string             `yaml:"name"`
	Uses         string             `yaml:"uses"`
	Kind         string             `yaml:"kind"`
	Timeout      string             `yaml:"timeout"`
	KeyTTL       string             `yaml:"key_ttl"`
	VisibleAfter string             `yaml:"visible_after"`
	Fields       map[string]keyYAML `yaml:"fields"`
}

type keyYAML struct {
	Const     *string `yaml:"const"`
	Path      string  `yaml:"path"`
	Sensitive bool    `yaml:"sensitive"`
	Because   string  `yaml:"because"`
}

// texts is a list of texts, or one text that stands for a list of one.
type texts []string

// UnmarshalYAML takes the node as it was read. Only where that is no text it reads
// bytes: to write them, the library walks the whole file.
func (t *texts) UnmarshalYAML(decode func(any) error) error {
	var many []string
	if err := decode(&many); err == nil && !slices.ContainsFunc(many, doubtful) {
		*t = many
		return nil
	}
	var one string
	if err := decode(&one); err == nil && !doubtful(one) {
		*t = texts{one}
		return nil
	}
	var alone textsAlone
	if err := decode(&alone); err != nil {
		return errors.New("must be a text or a list of texts")
	}
	*t = texts(alone)
	return nil
}

// doubtful reports whether a text must have been quoted: the library takes
// {type: a: b}, which is no YAML, for the text "a: b".
func doubtful(text string) bool { return strings.Contains(text, ": ") }

// textsAlone are texts that the library reads on their own: it takes [a:b] inside
// braces for a list of maps.
type textsAlone []string

func (t *textsAlone) UnmarshalYAML(raw []byte) error {
	if err := yaml.Unmarshal(raw, (*[]string)(t)); err == nil {
		return nil
	}
	var one string
	if err := yaml.Unmarshal(raw, &one); err != nil {
		return err
	}
	*t = textsAlone{one}
	return nil
}

// Embedded loads the flows.yaml that is built into the binary.
func Embedded(processors map[string]Processor) (*Set, error) {
	return Load(embedded, processors)
}

// EmbeddedYAML is the flows.yaml that is built into the binary.
func EmbeddedYAML() []byte { return bytes.Clone(embedded) }

// Load reads and checks a flows.yaml. The error joins every *ConfigError found,
// so that one look shows all that is wrong. processors says which processors
// exist; nil leaves that unchecked, for callers that only derive keys.
func Load(raw []byte, processors map[string]Processor) (*Set, error) {
	var file fileYAML
	decoder := yaml.NewDecoder(bytes.NewReader(raw), yaml.DisallowUnknownField())
	if err := decoder.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &ConfigError{Field: "file", Reason: "is empty"}
		}
		return nil, fmt.Errorf("load flows: %w", err)
	}
	if file.SchemaVersion != 1 {
		return nil, &ConfigError{Field: "schema_version", Reason: "must be 1"}
	}
	if len(file.Flows) == 0 {
		return nil, &ConfigError{Field: "flows", Reason: "there is none"}
	}
	set := &Set{Replay: file.Replay}
	var problems []error
	samples := map[*Flow]*events.Event{}
	for i, y := range file.Flows {
		if y.Name == "" {
			problems = append(problems, &ConfigError{Field: fmt.Sprintf("flows[%d].name", i), Reason: "is missing"})
			continue
		}
		c := checker{flow: y.Name}
		f := c.build(y, processors)
		f.Sample = []byte(strings.TrimSpace(y.Sample))
		if e := c.sample(f, y.Sample); e != nil {
			f.sample = e
			samples[f] = e
		}
		problems = append(problems, c.problems...)
		set.Flows = append(set.Flows, f)
	}
	if len(problems) == 0 {
		problems = append(problems, between(set.Flows)...)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return set, nil
}

// checker builds one flow and notes all that is wrong with it.
type checker struct {
	flow     string
	problems []error
}

func (c *checker) fail(field, format string, args ...any) {
	c.problems = append(c.problems, &ConfigError{c.flow, field, fmt.Sprintf(format, args...)})
}

func (c *checker) need(field, value string) string {
	if strings.TrimSpace(value) == "" {
		c.fail(field, "is missing")
	}
	return value
}

func (c *checker) path(field, text string) (path, bool) {
	p, err := parsePath(text)
	if err != nil {
		c.fail(field, "%q %v", text, err)
		return path{}, false
	}
	return p, true
}

func (c *checker) build(y flowYAML, processors map[string]Processor) *Flow {
	f := &Flow{
		Name: y.Name, Owner: c.need("owner", y.Owner), NumberOwner: c.need("number_owner", y.NumberOwner),
		Enabled: true, MaxAttempts: DefaultMaxAttempts,
		Processor: c.need("processor", y.Processor), ProcessorVersion: c.need("processor_version", y.ProcessorVersion),
	}
	if y.Enabled != nil {
		f.Enabled = *y.Enabled
	}
	if y.MaxAttempts != nil {
		f.MaxAttempts = *y.MaxAttempts
		if f.MaxAttempts < 1 || f.MaxAttempts > 100 {
			c.fail("max_attempts", "must be from 1 to 100")
		}
	}
	if y.Processor != "" && processors != nil && processors[y.Processor] == nil {
		c.fail("processor", "there is no processor %q; there are %s", y.Processor,
			strings.Join(slices.Sorted(maps.Keys(processors)), ", "))
	}
	if y.Environment == "" {
		y.Environment = DefaultEnvironment
	}
	f.environment, _ = c.path("environment", y.Environment)
	if len(y.Match["type"]) == 0 {
		c.fail("match.type", "is missing: say which event types belong to the flow")
	}
	for _, name := range slices.Sorted(maps.Keys(y.Match)) {
		text := name
		if !strings.HasPrefix(name, "$") {
			text = "$['" + name + "']"
		}
		if p, ok := c.path("match."+name, text); ok {
			f.match = append(f.match, condition{p, y.Match[name]})
		}
		if len(y.Match[name]) == 0 {
			c.fail("match."+name, "lists no value")
		}
	}
	c.payload(f, y.Payload)
	c.key(f, y.Key)
	c.content(f, y.Content)
	c.effects(f, y.Effects)
	c.schema(f, y.SchemaVersion, y.DataSchema)
	for _, text := range y.Input.Ignore {
		if p, ok := c.path("input.ignore", text); ok {
			f.ignore = append(f.ignore, p)
		}
	}
	f.without = f.noInput()
	return f
}

// sample checks the flow against its sample event: every path must name
// something there, and the sample must get a key.
func (c *checker) sample(f *Flow, text string) *events.Event {
	if strings.TrimSpace(text) == "" {
		c.fail("sample", "is missing: give one event of the flow, so that its paths can be checked")
		return nil
	}
	e, err := events.Decode([]byte(strings.TrimSpace(text)))
	if err != nil {
		c.fail("sample", "%v", err)
		return nil
	}
	if len(c.problems) > 0 {
		return nil
	}
	in, err := f.Input(e)
	if err != nil {
		c.fail("payload", "of the sample event: %v", err)
		return nil
	}
	found := func(field string, where source, p *path) {
		if p == nil {
			return
		}
		if !p.find(where).Exists() {
			c.fail(field, "%q names nothing in the sample event", p.text)
		}
	}
	found("environment", e, &f.environment)
	for _, m := range f.match {
		found("match", e, &m.path)
	}
	for _, k := range f.key {
		found("key."+k.name, in, k.path)
	}
	for _, p := range f.ignore {
		found("input.ignore", in, &p)
	}
	for _, d := range f.Effects {
		for _, k := range d.fields {
			found("effects."+d.Name+".fields."+k.name, in, k.path)
		}
	}
	if f.content != nil {
		found("content.object", in, &f.content.object)
		found("content.sha256", in, f.content.sha256)
		found("content.version_id", in, f.content.versionID)
	}
	if len(c.problems) > 0 {
		return nil
	}
	if !f.Matches(e) {
		c.fail("match", "the sample event does not match")
	}
	if _, err := f.Key(in, []byte("only to see that there is a key")); err != nil {
		c.fail("key", "the sample event gets no key: %v", err)
	}
	if _, _, err := f.Content(in); err != nil {
		c.fail("content", "of the sample event: %v", err)
	}
	if err := f.Validate(in); err != nil {
		c.fail("data_schema", "of the sample event: %v", err)
	}
	return e
}

// between checks flows against each other.
func between(all []*Flow) []error {
	var problems []error
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Name == b.Name {
				problems = append(problems, &ConfigError{a.Name, "name", "is used twice"})
				continue
			}
			if mayMatchBoth(a, b) {
				problems = append(problems, &ConfigError{a.Name, "match", fmt.Sprintf(
					"may match the same events as flow %q: give both a condition on the same value, with different texts", b.Name)})
			}
			if !constantsDiffer(a, b) {
				problems = append(problems, &ConfigError{a.Name, "key", fmt.Sprintf(
					"could make the same keys as flow %q: give both a const field of the same name, with different values", b.Name)})
			}
		}
	}
	return problems
}

func mayMatchBoth(a, b *Flow) bool {
	for _, x := range a.match {
		for _, y := range b.match {
			if slices.Equal(x.path.place, y.path.place) && !slices.ContainsFunc(x.want, func(s string) bool { return slices.Contains(y.want, s) }) {
				return false
			}
		}
	}
	return true
}

func constantsDiffer(a, b *Flow) bool {
	for _, x := range a.key {
		for _, y := range b.key {
			if x.name == y.name && x.path == nil && y.path == nil && x.constant != y.constant {
				return true
			}
		}
	}
	return false
}
