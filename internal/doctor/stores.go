package doctor

import (
	"slices"
	"time"

	"github.com/oncegate/oncegate/internal/messages"
)

// What a record has to outlive, beside the platform's retries.
const (
	day = 24 * time.Hour
	// asyncAge is the longest that FC keeps an asynchronous invocation:
	// maxAsyncEventAgeInSeconds of PutAsyncInvokeConfig.
	asyncAge = 7 * day
	// queueAge is the longest that a queue keeps a message.
	queueAge = 7 * day
	// replayWindow is what people have to repair and replay what came out of it.
	replayWindow = 30 * day
)

func judgeEnv(f Facts) Check {
	j := about("env", messages.T("every variable that this command and the function need is set and can be used"))
	for _, p := range f.Problems {
		j.fail(messages.T("here: %s", p), messages.T("set it in this shell"))
	}
	switch d := f.Deployed.Value; {
	case f.Deployed.Missing != nil:
		j.missing(f.Deployed.Missing, Fail)
	default:
		for _, p := range d.Problems {
			j.fail(messages.T("in the function: %s", p), messages.T("set it in s.yaml and deploy"))
		}
		if !d.Local && d.TimeScale != 1 {
			j.fail(messages.T("the function runs with ONCEGATE_TIME_SCALE %g, which is for the local cloud", d.TimeScale), messages.T("remove ONCEGATE_TIME_SCALE from the function"))
		}
	}
	if f.TakesIn.Missing != nil {
		j.missing(f.TakesIn.Missing, Fail)
	}
	for _, p := range f.TakesIn.Value.Problems {
		j.fail(messages.T("in the intake: %s", p), messages.T("set it in s.yaml and deploy"))
	}
	j.note(messages.T("complete here, in %s and in %s", f.Function, f.Intake))
	return j.check()
}

func judgeCredentials(f Facts) Check {
	j := about("credentials", messages.T("valid credentials of a role or a user"))
	switch id := f.Identity.Value; {
	case f.Identity.Missing != nil:
		j.missing(f.Identity.Missing, Fail)
	case id.Owner:
		j.warn(messages.T("these are credentials of the account %s itself, for which no policy holds", id.Account),
			messages.T("use a role of scripts/ram: commands that change something refuse these"))
	default:
		j.note(messages.T("you are %s of account %s", id.Name, id.Account))
	}
	return j.check()
}

func judgeTables(f Facts) Check {
	j := about("tables", messages.T("every table is there with one string key, max versions 1 and no time to live"))
	for _, t := range f.Tables {
		switch s := t.Shape.Value; {
		case t.Shape.Missing != nil:
			j.missing(t.Shape.Missing, Fail)
		case s.Absent:
			j.fail(messages.T("table %s is not there", t.Name), messages.T("run `oncegate setup`, which makes it"))
		case s.Wrong != "":
			j.fail(messages.T("table %s: %s", t.Name, s.Wrong),
				messages.T("put it right in the console; a key can only be changed by making the table anew with `oncegate setup`"))
		}
	}
	if len(f.Tables) == 0 {
		j.missing(&Missing{Reason: DependsOn, What: "env"}, Fail)
	}
	j.note(messages.T("%d tables", len(f.Tables)))
	return j.check()
}

func judgeRetention(f Facts) Check {
	const want = day + asyncAge + queueAge + replayWindow
	j := about("retention", messages.T("records outlive every late delivery: %s of retries, %s in FC, %s in the queue, %s to replay: %s",
		span(day), span(asyncAge), span(queueAge), span(replayWindow), span(want)))
	switch has := f.Deployed.Value.Policy.Retention; {
	case f.Deployed.Missing != nil:
		j.missing(f.Deployed.Missing, Fail)
	case has < want:
		j.fail(messages.T("records are kept for %s", span(has)), messages.T("set ONCEGATE_RETENTION of the function to at least %s", want.String()))
	default:
		j.note(messages.T("records are kept for %s", span(has)))
	}
	return j.check()
}

func judgeConditionalWrite(f Facts) Check {
	j := about("conditional-write", messages.T("the second of two equal puts on the condition that there is no row is refused"))
	switch p := f.Probe.Value; {
	case f.Probe.Missing != nil:
		j.missing(f.Probe.Missing, Fail)
	case p.Second == "":
		j.fail(messages.T("the second put was taken: whoever comes second would run the business again"),
			messages.T("do not send events here: the endpoint is no Tablestore that keeps its conditions"))
	default:
		j.note(messages.T("the second put was refused: %s", p.Second))
	}
	return j.check()
}

func judgeBucket(f Facts) Check {
	j := about("bucket", messages.T("the bucket can be reached, in the region that the endpoint names, and is private"))
	switch s := f.Settings.Value; {
	case f.Settings.Missing != nil:
		j.missing(f.Settings.Missing, Fail)
	case s.Elsewhere:
		j.fail(messages.T("the bucket is in %s", s.Location), messages.T("set ONCEGATE_OSS_ENDPOINT to an endpoint of that region"))
	case s.ACL != "private":
		j.fail(messages.T("the bucket's access control is %s", s.ACL), messages.T("make the bucket private: it holds business data"))
	default:
		j.note(messages.T("private, in %s", s.Location))
	}
	return j.check()
}

func judgeVersioning(f Facts) Check {
	j := about("versioning", messages.T("the bucket keeps versions, so that a result is the one version that was written"))
	switch s := f.Settings.Value; {
	case f.Settings.Missing != nil:
		j.missing(f.Settings.Missing, Fail)
	case s.Versioning == "":
		j.fail(messages.T("versioning was never enabled"), messages.T("enable versioning of the bucket"))
	case s.Versioning != "Enabled":
		j.fail(messages.T("versioning is %s", s.Versioning), messages.T("enable versioning of the bucket"))
	default:
		j.note(messages.T("versioning is %s", s.Versioning))
	}
	return j.check()
}

func judgeLifecycle(f Facts) Check {
	j := about("lifecycle", messages.T("objects end by rules on their tag `class`, after the records that name them"))
	switch {
	case f.Lifecycle.Missing != nil:
		j.missing(f.Lifecycle.Missing, Warn)
	case len(f.Lifecycle.Value) > 0:
		j.fail(messages.T("these rules are missing or different: %s", list(f.Lifecycle.Value)),
			messages.T("run `oncegate setup` with the function's ONCEGATE_RETENTION: it writes them and keeps all others"))
	default:
		j.note(messages.T("every rule is there"))
	}
	return j.check()
}

func judgeEncryption(f Facts) Check {
	j := about("encryption", messages.T("objects are encrypted on the server"))
	switch asks := f.Deployed.Value.Encryption; {
	case f.Deployed.Missing == nil && asks != "":
		j.note(messages.T("each object asks for %s", asks))
	case f.Settings.Missing != nil:
		j.missing(f.Settings.Missing, Fail)
	case f.Settings.Value.Encryption != "":
		j.note(messages.T("the bucket encrypts with %s", f.Settings.Value.Encryption))
	case f.Deployed.Missing != nil:
		j.missing(f.Deployed.Missing, Fail)
	default:
		j.fail(messages.T("objects ask for nothing, and the bucket has no encryption of its own"),
			messages.T("encrypt the bucket, or set ONCEGATE_OSS_ENCRYPTION of the function to AES256"))
	}
	return j.check()
}

func judgeClock(f Facts) Check {
	margin := f.Deployed.Value.Policy.Margin
	if f.Deployed.Missing != nil || margin <= 0 {
		margin = defaultMargin
	}
	j := about("clock", messages.T("this machine's clock is within %s of the services' clocks, half the lease margin", span(margin/2)))
	if f.Clock.Missing != nil {
		j.missing(f.Clock.Missing, Fail)
		return j.check()
	}
	worst := slices.MaxFunc(append([]Skew{{}}, f.Clock.Value...), func(a, b Skew) int { return int(a.By.Abs() - b.By.Abs()) })
	switch {
	case len(f.Clock.Value) == 0:
		j.missing(&Missing{Reason: NoAnswer, What: "tablestore, oss, fc, eventbridge", Where: "no Date"}, Fail)
	case worst.By.Abs() > margin/2:
		j.fail(messages.T("it is off by %s from the clock of %s", worst.By.Round(time.Second).String(), worst.Service),
			messages.T("let the clock be set by NTP; nothing may be claimed with one that is this far off"))
	default:
		j.note(messages.T("%d services compared, %s apart at most", len(f.Clock.Value), worst.By.Abs().Round(time.Second).String()))
	}
	return j.check()
}

// defaultMargin is the lease margin where nobody knows the function's.
const defaultMargin = 30 * time.Second
