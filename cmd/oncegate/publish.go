package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/strictjson"
	"github.com/oncegate/oncegate/scripts/ram"
)

// publishLine is one event of publish's output.
type publishLine struct {
	File        string         `json:"file"`
	EventID     string         `json:"event_id"`
	EventSource string         `json:"event_source"`
	Bus         string         `json:"bus"`
	Outcome     publishOutcome `json:"outcome"`
	TraceID     string         `json:"trace_id"`
	Code        string         `json:"code"`
}

func (a *app) publishCommand() *cobra.Command {
	o := stackOptions{}
	cmd := &cobra.Command{
		Use:   "publish FILE|FOLDER|-...",
		Short: "Publish events to the bus, as a producer does",
		Long: `Publish events to the bus, as a producer does, with a signed PutEvents call.

A file holds one event, an array of events, or, as .jsonl, one a line. A folder
stands for its .json files in name order. All are checked before any is sent: size
(256 KB), lengths of id, source, type and subject. Calls hold 16 events and 1 MB at
most. An event that names no bus gets ONCEGATE_ENVIRONMENT.

A call whose answer is lost may have been accepted. It is made again, three times
at most, with the same event ids: oncegate makes the business happen once, however
often its event arrives. Never publish again under a new id what has no business
number of its own.

The bus may refuse some events of a call: they are named with the bus's code, the
exit code is 4, and those alone need to be published again.

On the cloud: ONCEGATE_EVENTBRIDGE_ENDPOINT, by default that of the account and region
in ONCEGATE_FC_ENDPOINT, and ALIBABA_CLOUD_ACCESS_KEY_ID, ..._SECRET and
ALIBABA_CLOUD_SECURITY_TOKEN of the role oncegate-publisher, or the same with
ONCEGATE_PUBLISH_ instead of ALIBABA_CLOUD_. On the local cloud the events are
published to its bus, and delivered before the command ends.

Values shaped like keys, tokens, id cards or phone numbers are warned of, by place.`,
		Example: `  oncegate publish event.json
  oncegate publish --output jsonl today.jsonl
  oncegate publish --target local events/samples/01-summary.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			files, err := readPublishable(args, a.in)
			if err != nil {
				return err
			}
			return a.publish(ctx, &o, files)
		}),
	}
	a.stackFlags(cmd, &o)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_EVENTBRIDGE_ENDPOINT or ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) publish(ctx context.Context, o *stackOptions, files []eventFile) error {
	if a.target == "" && a.getenv("ONCEGATE_EVENTBRIDGE_ENDPOINT") != "" {
		a.target = targetCloud
	}
	target, err := a.chosenTarget()
	if err != nil {
		return err
	}
	set, err := loadFlows(o.flowsFile)
	if err != nil {
		return err
	}
	bus := localEnvironment
	if target == targetCloud {
		bus = strings.TrimSpace(a.getenv("ONCEGATE_ENVIRONMENT"))
	}
	all, err := a.outgoing(files, bus)
	if err != nil {
		return err
	}
	a.warnOfPersonal(set, files)
	client, done, err := a.openBus(ctx, target, o)
	if err != nil {
		return err
	}
	sending := publisher{client, sleep, func(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }}.send(ctx, all)
	if err := cmp.Or(done(), a.printPublished(all)); err != nil {
		return err
	}
	return publishVerdict(all, sending)
}

// readPublishable reads events one by one: members of arrays, and lines of .jsonl
// files and of standard input.
func readPublishable(args []string, in io.Reader) ([]eventFile, error) {
	files, err := readEvents(args, in)
	if err != nil {
		return nil, err
	}
	var all []eventFile
	for _, f := range files {
		_, parse := strictjson.Parse(f.raw)
		if !strings.HasSuffix(f.name, ".jsonl") && (f.name != "-" || parse == nil) {
			all = append(all, members([]eventFile{f})...)
			continue
		}
		n := 0
		for line := range bytes.Lines(f.raw) {
			if n++; len(bytes.TrimSpace(line)) > 0 {
				all = append(all, members([]eventFile{{fmt.Sprintf("%s:%d", f.name, n), bytes.TrimSpace(line)}})...)
			}
		}
	}
	if len(all) == 0 {
		return nil, usageErrorf("there is no event")
	}
	return all, nil
}

// outgoing checks all events; one that cannot be published keeps all of them back.
func (a *app) outgoing(files []eventFile, bus string) ([]*publishing, error) {
	all, refused := make([]*publishing, 0, len(files)), 0
	for _, f := range files {
		out, err := events.ReadOutgoing(f.raw, bus)
		if err != nil {
			fmt.Fprintf(a.err, "%s: %v\n", inert(f.name), err)
			refused++
			continue
		}
		all = append(all, &publishing{Outgoing: out, file: f.name})
	}
	if refused > 0 {
		return nil, fmt.Errorf("%d of %d events cannot be published; nothing was sent", refused, len(files))
	}
	return all, nil
}

// publishVerdict is how the command ends.
func publishVerdict(all []*publishing, sending error) error {
	count := map[publishOutcome]int{}
	for _, one := range all {
		count[one.outcome]++
	}
	if count[publishAccepted] == len(all) {
		return nil
	}
	text := fmt.Sprintf("%d of %d events were accepted", count[publishAccepted], len(all))
	for _, o := range []publishOutcome{publishRefused, publishUnknown, publishNotSent} {
		if n := count[o]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, map[publishOutcome]string{
				publishRefused: "were refused", publishUnknown: "may have been accepted", publishNotSent: "were not sent",
			}[o])
		}
	}
	text += "; publish those alone again, under the same ids: the same event twice is one business"
	if sending != nil && aliyun.KindOf(sending) == aliyun.KindDenied {
		return fmt.Errorf("%s\n%w", text, sending)
	}
	if sending != nil && count[publishNotSent] == len(all) {
		return sending
	}
	if sending != nil {
		return &exitError{exitPartial, fmt.Errorf("%s\n%w", text, sending)}
	}
	return &exitError{exitPartial, errors.New(text)}
}

func (a *app) printPublished(all []*publishing) error {
	lines := make([]publishLine, len(all))
	for i, p := range all {
		lines[i] = publishLine{p.file, p.ID(), p.Source(), p.Bus, p.outcome, p.traceID, p.code}
	}
	switch a.output {
	case outputJSONL:
		for _, l := range lines {
			if err := printJSON(a.out, l, false); err != nil {
				return err
			}
		}
		return nil
	case outputJSON:
		return printJSON(a.out, struct {
			SchemaVersion int           `json:"schema_version"`
			Events        []publishLine `json:"events"`
		}{1, lines}, true)
	}
	rows := make([][]string, len(lines))
	for i, l := range lines {
		rows[i] = []string{filepath.Base(l.File), l.EventID, l.Bus, string(l.Outcome), l.Code, l.TraceID}
	}
	printTable(a.out, []string{"file", "event", "bus", "outcome", "code", "trace"}, rows)
	return nil
}

// openBus reaches the bus; done ends what was started for it.
func (a *app) openBus(ctx context.Context, target string, o *stackOptions) (bus eventPutter, done func() error, err error) {
	if target == targetCloud {
		client, err := a.cloudBus()
		return client, func() error { return nil }, err
	}
	if err := a.completeStack(o); err != nil {
		return nil, nil, err
	}
	if err := a.needFunction(ctx, o); err != nil {
		return nil, nil, err
	}
	s, err := startStack(*o)
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.setup(ctx); err != nil {
		s.Close()
		return nil, nil, err
	}
	ctx, abort := context.WithCancelCause(ctx)
	local, err := s.bus(*o, abort)
	if err != nil {
		abort(nil)
		s.Close()
		return nil, nil, err
	}
	end := func() error {
		defer s.Close()
		defer local.Close()
		defer abort(nil)
		if err := local.Drain(ctx); err != nil {
			return interrupted(ctx, err)
		}
		count := local.Counts()
		fmt.Fprintf(a.err, "delivered: %d acknowledged, %d dead-lettered; oncegate task list shows the tasks\n", count[ebtest.Acknowledged], count[ebtest.DeadLettered])
		return nil
	}
	client, err := a.localBus(s, local)
	if err != nil {
		_ = end()
		return nil, nil, err
	}
	return client, end, nil
}

// localBus is a client of the local bus as the role that a producer has, or as
// the one that ONCEGATE_LOCAL_IDENTITY names.
func (a *app) localBus(s *stack, bus *ebtest.Bus) (*aliyun.Publisher, error) {
	role := ram.Role(cmp.Or(a.getenv(localIdentityVariable), string(ram.Publisher)))
	if !role.Known() {
		return nil, refusedf("%s %q is no role; use one of %v", localIdentityVariable, string(role), ram.Roles)
	}
	id, err := identityOf(role)
	if err != nil {
		return nil, err
	}
	a.who = role.RoleName() + "/local"
	return aliyun.NewPublisher("http://eventbridge.local", aliyun.Options{
		Credentials: fixed(issueTo(&s.creds, id)), Transport: handlerTransport{bus.PutEventsHandler(bus.Signed(&s.creds))},
	})
}

// handlerTransport reaches a stand-in's handler without a socket.
type handlerTransport struct{ handler http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r.Clone(r.Context()))
	return w.Result(), nil
}

// cloudBus is a client of the bus that the environment names.
func (a *app) cloudBus() (*aliyun.Publisher, error) {
	env := aliyun.NewEnv(a.getenv)
	var endpoint string
	if endpoint = busEndpoint(a.getenv("ONCEGATE_FC_ENDPOINT")); endpoint == "" || a.getenv("ONCEGATE_EVENTBRIDGE_ENDPOINT") != "" {
		endpoint = env.URL("ONCEGATE_EVENTBRIDGE_ENDPOINT")
	}
	env.Need("ONCEGATE_ENVIRONMENT")
	options := publishOptions(env)
	if err := env.Err(); err != nil {
		return nil, fmt.Errorf("%w\nset them for the cloud (https://<account>.eventbridge.<region>.aliyuncs.com), or use --target local", err)
	}
	return aliyun.NewPublisher(endpoint, options)
}

// publishOptions reads the keys that events are published with: their own, where
// a command acts as two roles, or those of every other call.
func publishOptions(env *aliyun.Env) aliyun.Options {
	const own = "ONCEGATE_PUBLISH_"
	if env.Text(own+"ACCESS_KEY_ID", "") == "" {
		return cloudOptions(env)
	}
	return aliyun.Options{Credentials: fixed(aliyun.Credentials{
		AccessKeyID:     env.Need(own + "ACCESS_KEY_ID"),
		AccessKeySecret: env.Need(own + "ACCESS_KEY_SECRET"),
		SecurityToken:   env.Text(own+"SECURITY_TOKEN", ""),
	})}
}

var fcHost = regexp.MustCompile(`^([0-9]+)\.([a-z0-9-]+?)(-internal)?\.fc\.aliyuncs\.com$`)

// busEndpoint is the bus's endpoint of the account and region that a function's
// endpoint names, "" where it names none.
func busEndpoint(functions string) string {
	u, err := url.Parse(strings.TrimSpace(functions))
	if err != nil {
		return ""
	}
	m := fcHost.FindStringSubmatch(u.Hostname())
	if m == nil {
		return ""
	}
	return "https://" + m[1] + ".eventbridge." + m[2] + ".aliyuncs.com"
}
