package deadletter

import (
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// GateName names what is asked of every letter again at the moment it goes.
type GateName string

// The gates, in the order in which they are asked.
const (
	GateIdempotency GateName = "idempotency" // what the business record says now
	GateVersion     GateName = "version"     // which version of the function it goes to
	GatePermission  GateName = "permission"  // whether this identity may replay
	GateRepair      GateName = "repair"      // whether the cause is known to be repaired
	GateApproval    GateName = "approval"    // whether a person approved this very plan
	GateRate        GateName = "rate"        // whether the target asked to wait
	GateExpiry      GateName = "expiry"      // whether the letter outlives its replay
)

// Gate is the answer of one gate.
type Gate struct {
	Name   GateName
	Pass   bool
	Reason messages.Text // why it refuses, or what it passes by
	Until  time.Time     // when a refusal is over by itself; zero: not by itself
}

// GateFacts are what the gates go by.
type GateFacts struct {
	Now       time.Time
	Judgement Judgement
	// Item is what the plan froze; nil before there is a plan.
	Item *plan.Frozen
	// Family is why a parent or a child of the letter holds it back, zero where none does.
	Family messages.Text
	// Current is the version behind the function's alias now, "" where nobody knows.
	Current string
	// Permission is why this identity may not replay, nil where it may or where
	// nobody has asked yet.
	Permission error
	// Evidence about the letter's group, with the reason where there is none.
	Evidence    *Evidence
	EvidenceWhy messages.Text
	// Approval is what plan.CheckApproval says, nil where it passes.
	Approval       error
	MaxGenerations int64
	// CallTimeout is the longest that one call of the function may take.
	CallTimeout time.Duration
}

// ErrNoPlan is the approval gate's refusal of a letter that no plan has taken up.
var ErrNoPlan = messages.Errorf("no plan has taken it up yet")

// Gates asks every gate; none stops the others, so that a person sees them all.
func Gates(f GateFacts) []Gate {
	return []Gate{
		idempotencyGate(f), versionGate(f), permissionGate(f), repairGate(f), approvalGate(f), rateGate(f), expiryGate(f),
	}
}

// Passes reports whether every gate passes, and otherwise the first that does not.
func Passes(gates []Gate) (ok bool, first Gate) {
	for _, g := range gates {
		if !g.Pass {
			return false, g
		}
	}
	return true, Gate{}
}

func idempotencyGate(f GateFacts) Gate {
	refuse := func(why messages.Text, until time.Time) Gate {
		return Gate{Name: GateIdempotency, Reason: why, Until: until}
	}
	j, rec := f.Judgement, f.Judgement.Record
	switch {
	case !j.Letter.Open():
		return refuse(messages.T("the letter has ended: %s", j.Letter.FinalStatus), time.Time{})
	case !f.Family.IsZero():
		return refuse(f.Family, time.Time{})
	case j.Decision == SkipCompleted, j.Decision == ManualReview:
		return refuse(j.Rule, time.Time{})
	case j.Letter.Key == "":
		return refuse(messages.T("no business key is known, so nothing would guard it: no flow wants the event, it lacks a key field, or it is sealed and no private key was given"), time.Time{})
	}
	if i := f.Item; i != nil {
		switch revision := revisionOf(rec); {
		case revision != i.RecordRevision:
			return refuse(messages.T("the business record has moved on since the plan"), time.Time{})
		case i.RawSHA256 != j.Letter.RawSHA256:
			return refuse(messages.T("the letter's event has other bytes than the plan froze"), time.Time{})
		case i.Generation != j.Letter.Generation:
			return refuse(messages.T("the letter has failed again since the plan"), time.Time{})
		}
	}
	if rec == nil {
		return Gate{Name: GateIdempotency, Pass: true, Reason: messages.T("there is no record: the first claim of its key protects it")}
	}
	if rec.Status == idempotency.StatusRunning && (rec.LeaseUntil.IsZero() || !f.Now.After(rec.LeaseUntil)) {
		return refuse(messages.T("a run holds the lease"), rec.LeaseUntil)
	}
	return Gate{Name: GateIdempotency, Pass: true, Reason: messages.T("the record is %s, revision %d", rec.Status, rec.Revision)}
}

func revisionOf(rec *idempotency.Record) int64 {
	if rec == nil {
		return 0
	}
	return rec.Revision
}

// Qualifier is the version of the function that a letter is replayed at: the one
// that ran it, and for a letter that none has run, or whose event was migrated,
// the one behind the alias. It is "" where nobody knows.
func Qualifier(j Judgement, current string) string {
	switch {
	case j.Letter.Migration != "":
		return current
	case j.Code == letter.CodeParked, j.Letter.Flow == "":
		return current
	case j.Record != nil && j.Record.ConsumerVersion != "":
		return j.Record.ConsumerVersion
	case j.Record != nil, j.Letter.ConsumerVersion != "":
		return j.Letter.ConsumerVersion
	}
	return current // never delivered
}

// latest is what FC calls the code that nobody has published: it may be another
// one tomorrow.
const latest = "LATEST"

func versionGate(f GateFacts) Gate {
	q := Qualifier(f.Judgement, f.Current)
	if f.Item != nil {
		q = f.Item.Qualifier
	}
	switch q {
	case "":
		return Gate{Name: GateVersion, Reason: messages.T("nobody knows which version of the function to use")}
	case latest:
		return Gate{Name: GateVersion, Reason: messages.T("it ran at LATEST, which may be other code today: migrate it, an identity migration is enough")}
	}
	return Gate{Name: GateVersion, Pass: true, Reason: messages.T("version %s", q)}
}

func permissionGate(f GateFacts) Gate {
	if f.Permission != nil {
		return Gate{Name: GatePermission, Reason: messages.Of(f.Permission)}
	}
	return Gate{Name: GatePermission, Pass: true}
}

func repairGate(f GateFacts) Gate {
	j := f.Judgement
	switch {
	case j.Letter.Generation >= f.MaxGenerations:
		return Gate{Name: GateRepair, Reason: messages.T("its replay has failed %d times, the most that is allowed: discard it, or end it elsewhere", j.Letter.Generation)}
	case j.Decision == ReplayCandidate:
		return Gate{Name: GateRepair, Pass: true, Reason: messages.T("nothing is to be repaired: %s", j.Rule)}
	case f.Evidence == nil:
		why := f.EvidenceWhy
		if why.IsZero() {
			why = messages.T("no probe has shown that the cause is repaired")
		}
		return Gate{Name: GateRepair, Reason: why}
	case f.Item != nil && f.Item.EvidenceID != f.Evidence.ID:
		return Gate{Name: GateRepair, Reason: messages.T("the evidence is another than the plan was approved with")}
	}
	return Gate{Name: GateRepair, Pass: true, Reason: messages.T("evidence %s", f.Evidence.ID)}
}

func approvalGate(f GateFacts) Gate {
	if f.Approval != nil {
		return Gate{Name: GateApproval, Reason: messages.Of(f.Approval)}
	}
	return Gate{Name: GateApproval, Pass: true}
}

func rateGate(f GateFacts) Gate {
	if rec := f.Judgement.Record; rec != nil && rec.NotBefore.After(f.Now) {
		return Gate{Name: GateRate, Reason: messages.T("the target, or its back-off, asks to wait"), Until: rec.NotBefore}
	}
	return Gate{Name: GateRate, Pass: true}
}

func expiryGate(f GateFacts) Gate {
	if at := f.Judgement.Letter.ExpiresAt; !at.IsZero() && !at.After(f.Now.Add(f.CallTimeout)) {
		return Gate{Name: GateExpiry, Reason: messages.T("the letter expires before its replay would end: the rows that guard it may be gone")}
	}
	return Gate{Name: GateExpiry, Pass: true}
}
