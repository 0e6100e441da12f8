package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

const outputEnv = "env"

// upReport is the one line that `local up` prints once all is ready.
type upReport struct {
	Tablestore struct {
		Endpoint string `json:"endpoint"`
		Instance string `json:"instance"`
		keyPair
	} `json:"tablestore"`
	OSS struct {
		Endpoint string `json:"endpoint"`
		Bucket   string `json:"bucket"`
		keyPair
	} `json:"oss"`
	EventBridge struct {
		Endpoint    string `json:"endpoint"`     // where events are published
		APIEndpoint string `json:"api_endpoint"` // where rules and streams are read
		Bus         string `json:"bus"`
	} `json:"eventbridge"`
	MNS struct {
		Endpoint string `json:"endpoint"`
	} `json:"mns"`
	Model struct {
		Endpoint string `json:"endpoint"`
	} `json:"model"`
	FC struct {
		Endpoint string `json:"endpoint"`
		Function string `json:"function"`
	} `json:"fc"`
	STS struct {
		Endpoint string `json:"endpoint"`
	} `json:"sts"`
	Roles    map[string]keyPair `json:"roles"` // keys of every role of scripts/ram
	StateDir string             `json:"state_dir"`
}

type keyPair struct {
	AccessKeyID     string `json:"access_key_id"`
	AccessKeySecret string `json:"access_key_secret"`
	SecurityToken   string `json:"security_token"`
}

func (a *app) localUpCommand() *cobra.Command {
	o := stackOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Keep the local cloud running, for other clients",
		Long: `Keep the local cloud running until it is interrupted, and print where it is.

Publish events over HTTP at the endpoint of EventBridge, as PutEvents does:

  POST ENDPOINT/openapi/putEvents
  Content-Type: application/cloudevents-batch+json

Such a call, and those to Tablestore, OSS, Function Compute, STS and the control
planes of EventBridge and MNS, must be signed with the printed credentials, which are
those of the role that ONCEGATE_LOCAL_IDENTITY names or of a user who may do
everything; --output json has keys of every role. A single event
(application/cloudevents+json, or ce-* headers), which only the local bus takes,
needs no signature. SIGINT or SIGTERM stops everything.`,
		Example: `  oncegate local up
  oncegate local up --output json
  oncegate local up --output env > env.sh &    then: . ./env.sh`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			if err := a.completeStack(&o); err != nil {
				return err
			}
			if _, err := loadFlows(o.flowsFile); err != nil {
				return err
			}
			if err := a.needFunction(ctx, &o); err != nil {
				return err
			}
			return a.up(ctx, o)
		}),
	}
	a.stackFlags(cmd, &o)
	a.outputFlag(cmd, outputTable, outputJSON, outputEnv)
	return cmd
}

func (a *app) up(ctx context.Context, o stackOptions) error {
	s, err := startStack(o)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.setup(ctx); err != nil {
		return err
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	bus, err := s.bus(o, abort)
	if err != nil {
		return err
	}
	defer bus.Close()
	front, err := cloudtest.Listen(bus.PutEventsHandler(bus.Signed(&s.creds)))
	if err != nil {
		return fmt.Errorf("start local cloud: %w", err)
	}
	defer front.Close()
	apis, err := s.openAPIs(o)
	if err != nil {
		return err
	}
	defer apis.Close()

	dir, err := filepath.Abs(o.stateDir)
	if err != nil {
		return err
	}
	r := s.report(front.URL, dir)
	keys, err := a.upKeys(s)
	if err != nil {
		return err
	}
	r.Tablestore.keyPair, r.OSS.keyPair = keys, keys
	if r.Roles, err = s.roleKeys(); err != nil {
		return err
	}
	r.FC.Endpoint, r.FC.Function, r.STS.Endpoint = apis.fc.Endpoint(), localFunctionName, apis.sts.Endpoint()
	r.EventBridge.APIEndpoint, r.MNS.Endpoint = apis.plane.Endpoint(), apis.plane.Endpoint()
	if err := a.printUp(r); err != nil {
		return err
	}
	fmt.Fprintln(a.err, "ready; interrupt to stop")
	<-ctx.Done()
	fmt.Fprintln(a.err, "stopping ...")
	for _, p := range bus.Pending() {
		fmt.Fprintf(a.err, "not delivered to the end: one event of rule %s, after %d deliveries\n", p.Rule, p.Deliveries)
	}
	return context.Cause(ctx)
}

func (s *stack) report(eventbridge, stateDir string) upReport {
	var r upReport
	r.Tablestore.Endpoint, r.Tablestore.Instance = s.ots.Endpoint(), localInstance
	r.OSS.Endpoint, r.OSS.Bucket = s.oss.Endpoint(), localBucket
	r.EventBridge.Endpoint, r.EventBridge.Bus = eventbridge, localEnvironment
	r.Model.Endpoint = s.model.Endpoint()
	r.StateDir = stateDir
	return r
}

func (a *app) printUp(r upReport) error {
	pairs := [][2]string{
		{"ONCEGATE_ENVIRONMENT", localEnvironment},
		{"ONCEGATE_TABLESTORE_ENDPOINT", r.Tablestore.Endpoint},
		{"ONCEGATE_TABLESTORE_INSTANCE", r.Tablestore.Instance},
		{"ONCEGATE_OSS_ENDPOINT", r.OSS.Endpoint},
		{"ONCEGATE_OSS_BUCKET", r.OSS.Bucket},
		{"ONCEGATE_MODEL_BASE_URL", r.Model.Endpoint},
		{"ONCEGATE_EVENTBRIDGE_ENDPOINT", r.EventBridge.Endpoint},
		{"ONCEGATE_EVENTBRIDGE_API_ENDPOINT", r.EventBridge.APIEndpoint},
		{"ONCEGATE_MNS_ENDPOINT", r.MNS.Endpoint},
		{"ONCEGATE_FC_ENDPOINT", r.FC.Endpoint},
		{"ONCEGATE_FUNCTION", r.FC.Function},
		{"ONCEGATE_STS_ENDPOINT", r.STS.Endpoint},
		{"ALIBABA_CLOUD_ACCESS_KEY_ID", r.Tablestore.AccessKeyID},
		{"ALIBABA_CLOUD_ACCESS_KEY_SECRET", r.Tablestore.AccessKeySecret},
		{"ALIBABA_CLOUD_SECURITY_TOKEN", r.Tablestore.SecurityToken},
	}
	switch a.output {
	case outputJSON:
		return printJSON(a.out, r, false)
	case outputEnv:
		for _, p := range pairs {
			fmt.Fprintf(a.out, "export %s='%s'\n", p[0], p[1])
		}
	default:
		for _, p := range pairs {
			fmt.Fprintf(a.out, "%-33s %s\n", p[0], p[1])
		}
		fmt.Fprintf(a.out, "\npublish: curl -H 'Content-Type: application/cloudevents+json' -d @event.json %s/openapi/putEvents\n", r.EventBridge.Endpoint)
		fmt.Fprintf(a.out, "records: oncegate task list --target cloud (with the variables above)\n")
	}
	return nil
}
