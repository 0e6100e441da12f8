package doctor

import "github.com/oncegate/oncegate/internal/messages"

func judgeOneFlow(f Facts) Check {
	j := about("one-flow", messages.T("one enabled flow wants an event, and one rule brings it"))
	if f.Flows.Missing != nil {
		j.missing(f.Flows.Missing, Fail)
		return j.check()
	}
	for _, one := range f.enabled() {
		if len(one.AlsoWantedBy) > 0 {
			j.fail(messages.T("flow %s: its sample event is wanted by %s too", one.Name, list(one.AlsoWantedBy)), messages.T("give the flows different `match` values, or turn one off"))
		}
		switch routes := one.Routes; {
		case routes.Missing != nil:
			j.missing(routes.Missing, Fail)
		case len(routes.Value) > 1:
			j.fail(messages.T("flow %s: %d rules bring its event to the function: %s", one.Name, len(routes.Value), list(routes.Value)),
				messages.T("narrow the patterns, so that one rule takes an event: each of them retries and dead-letters by itself"))
		case len(routes.Value) == 0:
			j.warn(messages.T("flow %s: no rule brings its sample event", one.Name), messages.T("widen the rule's pattern, or turn the flow off"))
		}
	}
	j.note(messages.T("%d enabled flows", len(f.enabled())))
	return j.check()
}

func judgeKeySecret(f Facts) Check {
	j := about("key-secret", messages.T("where a flow has sensitive fields, the function has a key secret, and this command the same one"))
	if f.Flows.Missing != nil {
		j.missing(f.Flows.Missing, Fail)
		return j.check()
	}
	var need []string
	for _, one := range f.enabled() {
		if one.NeedsSecret {
			need = append(need, one.Name)
		}
	}
	if len(need) == 0 {
		j.note(messages.T("no enabled flow has sensitive fields"))
		return j.check()
	}
	switch d := f.Deployed.Value; {
	case f.Deployed.Missing != nil:
		j.missing(f.Deployed.Missing, Fail)
	case !d.KeySecret:
		j.fail(messages.T("%s needs one, and the function has none of 32 characters or more", list(need)),
			messages.T("set ONCEGATE_KEY_SECRET of the function to at least 32 random characters, and keep it: another one makes other keys"))
	case d.OtherSecret:
		j.warn(messages.T("this command has another key secret than the function, or none"),
			messages.T("set ONCEGATE_KEY_SECRET here to the function's: else `key`, `task find` and `dlq ingest` make other keys"))
	}
	switch in := f.TakesIn.Value; {
	case f.TakesIn.Missing != nil:
		j.missing(f.TakesIn.Missing, Fail)
	case !in.KeySecret, in.OtherSecret && f.Deployed.Missing == nil:
		j.fail(messages.T("the intake has another key secret than the function, or none"), messages.T("set ONCEGATE_KEY_SECRET of the intake to the function's: else it does not find the records of the letters it takes in"))
	}
	j.note(messages.T("the same one, for %s", list(need)))
	return j.check()
}

func judgeEffectTargets(f Facts) Check {
	j := about("effect-targets", messages.T("every effect of an enabled flow has somewhere to send to"))
	switch {
	case f.Flows.Missing != nil:
		j.missing(f.Flows.Missing, Fail)
		return j.check()
	case f.Deployed.Missing != nil:
		j.missing(f.Deployed.Missing, Fail)
		return j.check()
	}
	count := 0
	for _, one := range f.enabled() {
		for _, e := range one.Effects {
			count++
			if !f.Deployed.Value.Targets[e.Uses] {
				j.fail(messages.T("flow %s: effect %s uses %s, which has no URL", one.Name, e.Name, e.Uses), messages.T("set %s of the function", targetVariables[e.Uses]))
			}
		}
	}
	j.note(messages.T("%d effects", count))
	return j.check()
}

// targetVariables name where effects go, by `uses`; one without a variable needs none.
var targetVariables = map[string]string{
	"notify": "ONCEGATE_NOTIFY_URL", "robot": "ONCEGATE_ROBOT_URL", "record.create": "ONCEGATE_RECORDS_URL",
}

// TargetVariable is the variable that says where effects of a kind go, "" for one
// that needs none.
func TargetVariable(uses string) string { return targetVariables[uses] }

func judgeModel(f Facts) Check {
	j := about("model", messages.T("the function knows its model, reaches it over TLS, and waits for it no longer than a run lasts"))
	if f.Deployed.Missing != nil {
		j.missing(f.Deployed.Missing, Fail)
		return j.check()
	}
	d := f.Deployed.Value
	if !d.Model {
		j.fail(messages.T("a variable of the model is not set"), messages.T("set ONCEGATE_MODEL_BASE_URL, ONCEGATE_MODEL_NAME and ONCEGATE_MODEL_API_KEY of the function"))
	}
	if d.ModelPlain {
		j.warn(messages.T("the model is called over http: its key can be read on the way"), messages.T("set ONCEGATE_MODEL_BASE_URL to an https address"))
	}
	if d.ModelTimeout > d.work() {
		j.fail(messages.T("a model call may take %s, and a run has %s", span(d.ModelTimeout), span(d.work())),
			messages.T("lower ONCEGATE_MODEL_TIMEOUT, or raise the function's time-out"))
	}
	if d.ModelTimeout == 0 {
		j.note(messages.T("set; a call may take what the run has left"))
	} else {
		j.note(messages.T("set; a call may take %s", span(d.ModelTimeout)))
	}
	return j.check()
}

func judgeCopies(f Facts) Check {
	j := about("copies", messages.T("function, tables, bucket and bus belong to one environment, and no other bus delivers to the function"))
	switch d := f.Deployed.Value; {
	case f.Deployed.Missing != nil:
		j.missing(f.Deployed.Missing, Fail)
	default:
		for _, pair := range []struct{ variable, here, there string }{
			{"ONCEGATE_ENVIRONMENT", f.Environment, d.Environment},
			{"ONCEGATE_TABLESTORE_INSTANCE", f.Instance, d.Instance},
			{"ONCEGATE_OSS_BUCKET", f.Bucket, d.Bucket},
		} {
			if pair.here != pair.there {
				j.fail(messages.T("%s is %q here and %q in the function", pair.variable, pair.here, pair.there),
					messages.T("set %s to one value in both: else commands look at another environment than events run in", pair.variable))
			}
		}
	}
	switch in := f.TakesIn.Value; {
	case f.TakesIn.Missing != nil:
		j.missing(f.TakesIn.Missing, Fail)
	case in.Environment != f.Environment || in.Instance != f.Instance || in.Bucket != f.Bucket:
		j.fail(messages.T("the intake works on environment %q, instance %q, bucket %q", in.Environment, in.Instance, in.Bucket),
			messages.T("give the intake the environment, tables and bucket of the function"))
	}
	if f.Foreign.Missing != nil {
		j.missing(f.Foreign.Missing, Warn)
	}
	for _, r := range f.Foreign.Value {
		for _, t := range r.Targets {
			if r.Enabled && t.Function == f.Function {
				j.fail(messages.T("rule %s of bus %s delivers to the function too", r.Name, r.Bus),
					messages.T("remove that rule, or give that environment a function, tables and a bucket of its own"))
			}
		}
	}
	if f.Flows.Missing != nil {
		j.missing(f.Flows.Missing, Warn)
	}
	for _, one := range f.enabled() {
		if one.NamedByBus && f.Bus != f.Environment {
			j.fail(messages.T("flow %s: its events name the bus %s as their environment, and this one is %s", one.Name, f.Bus, f.Environment),
				messages.T("set ONCEGATE_ENVIRONMENT to the name of the bus, or the flow's `environment` to a path of the event"))
		}
		if len(one.Others) > 0 {
			j.warn(messages.T("flow %s: function %s gets its events too", one.Name, list(one.Others)),
				messages.T("make sure that it is no second oncegate with tables of its own: two of them would each do the business once"))
		}
	}
	j.note(messages.T("environment %s", f.Environment))
	return j.check()
}
