package ram

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func httpClient(s *osstest.Server) *http.Client { return &http.Client{Transport: s.Transport()} }

const (
	readers = "reviewer repairer replayer approver operator cleaner "
	nobody  = ""
)

// may says which roles each operation is for. All others must be refused.
var may = map[string]string{
	"get task_records":         readers + "function intake",
	"scan task_records":        readers,
	"insert task_records":      "function",
	"update task_records":      "function",
	"get reviews":              readers + "function intake",
	"scan reviews":             readers,
	"insert reviews":           "function",
	"update reviews":           "function reviewer operator",
	"get dead_letters":         readers + "function intake",
	"scan dead_letters":        readers,
	"insert dead_letters":      "function intake repairer operator",
	"update dead_letters":      "function intake repairer replayer operator",
	"get replay_plans":         readers + "function",
	"scan replay_plans":        readers,
	"insert replay_plans":      "replayer operator",
	"update replay_plans":      "replayer operator",
	"get replay_items":         readers,
	"scan replay_items":        readers,
	"insert replay_items":      "replayer operator",
	"update replay_items":      "replayer operator",
	"get replay_approvals":     readers + "function",
	"scan replay_approvals":    readers,
	"insert replay_approvals":  "approver",
	"update replay_approvals":  nobody,
	"get repair_evidence":      readers,
	"scan repair_evidence":     readers,
	"insert repair_evidence":   "repairer operator",
	"update repair_evidence":   nobody,
	"get dead_letter_audit":    readers,
	"scan dead_letter_audit":   readers,
	"insert dead_letter_audit": readers + "intake",
	"update dead_letter_audit": nobody,

	"delete task_records":          "cleaner",
	"delete reviews":               "cleaner",
	"delete dead_letters":          "cleaner",
	"delete replay_plans":          "cleaner",
	"delete replay_items":          "cleaner",
	"delete replay_approvals":      "cleaner",
	"delete repair_evidence":       "cleaner",
	"delete dead_letter_audit":     "cleaner",
	"get oncegate_doctor_probe":    nobody,
	"scan oncegate_doctor_probe":   nobody,
	"insert oncegate_doctor_probe": "deployer",
	"update oncegate_doctor_probe": nobody,
	"delete oncegate_doctor_probe": "deployer",
	"get foreign":                  nobody,
	"scan foreign":                 nobody,
	"insert foreign":               nobody,
	"update foreign":               nobody,
	"delete foreign":               nobody,
	"batch write":                  nobody,
	"create table":                 "deployer",
	"describe table":               "deployer",

	"read output":         "function operator",
	"write output":        "function",
	"read approved":       "function operator",
	"write approved":      "function operator",
	"read letter":         "function repairer replayer operator",
	"read letter version": "function repairer replayer operator",
	"write letter":        "function intake repairer operator",
	"read content":        "function repairer operator",
	"write content":       nobody,
	"read elsewhere":      nobody,
	"write elsewhere":     nobody,
	"read other bucket":   nobody,
	"write other bucket":  nobody,
	"delete letter":       nobody,
	"drop letter version": "cleaner",
	"drop output version": nobody,
	"list outputs":        "function",
	"list letters":        nobody,
	"list all":            nobody,
	"set expiry":          "deployer",

	"set expiry of other bucket": nobody,

	"invoke alias":          "replayer operator",
	"invoke version":        "replayer operator",
	"invoke latest":         "replayer operator",
	"invoke other function": nobody,

	"publish":                "publisher",
	"publish on another bus": nobody,

	"read alias":                   "replayer operator deployer",
	"read alias of other function": "deployer",
}

func TestEachRoleMayDoWhatItNeedsAndNothingElse(t *testing.T) {
	r, ops := newRoom(t), operations()
	if len(ops) != len(may) {
		t.Fatalf("%d operations, %d are decided about", len(ops), len(may))
	}
	for _, role := range Roles {
		policy := parse(t, render(t, role))
		got := r.verdicts(t, ops, policy)
		for _, op := range ops {
			t.Run(string(role)+" "+op.name, func(t *testing.T) {
				roles, ok := may[op.name]
				if !ok {
					t.Fatal("nobody has decided about it")
				}
				if want := !slices.Contains(strings.Fields(roles), string(role)); got[op.name] != want {
					t.Errorf("refused: %v, want %v", got[op.name], want)
				}
			})
		}
	}
}

func parse(t *testing.T, doc []byte) cloudtest.Policy {
	t.Helper()
	p, err := cloudtest.ParsePolicy(doc)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// never says what each role is refused though another policy that is attached
// to it allows everything: what its Deny statements are for. "write" stands for
// insert, update and delete.
var never = map[Role][]string{
	Function: {
		"write replay_plans", "write replay_items", "write replay_approvals", "write repair_evidence", "write dead_letter_audit",
		"delete task_records", "delete reviews", "delete dead_letters", "delete oncegate_doctor_probe", "delete foreign", "batch write",
	},
	Intake: {"write task_records", "write reviews", "write replay_plans", "write replay_items", "write replay_approvals", "write repair_evidence", "batch write"},
	Reviewer: {
		"write task_records", "write dead_letters", "write replay_plans", "write replay_items", "write replay_approvals", "write repair_evidence", "batch write",
		"read letter", "read letter version", "write letter", "delete letter", "drop letter version", "invoke alias", "invoke version", "invoke latest", "invoke other function",
	},
	Repairer: {
		"write task_records", "write reviews", "write replay_plans", "write replay_items", "write replay_approvals", "batch write",
		"invoke alias", "invoke version", "invoke latest", "invoke other function",
	},
	Replayer: {
		"write task_records", "write reviews", "write replay_approvals", "write repair_evidence", "batch write",
		"write output", "write approved", "write letter", "write content", "write elsewhere", "delete letter",
	},
	Approver: {
		"write task_records", "write reviews", "write dead_letters", "write replay_plans", "write replay_items", "write repair_evidence", "batch write",
		"read output", "read approved", "read letter", "read letter version", "read content", "read elsewhere",
		"write output", "write approved", "write letter", "write content", "write elsewhere", "delete letter", "drop letter version", "drop output version",
		"invoke alias", "invoke version", "invoke latest", "invoke other function",
	},
	Operator:  {"write task_records", "write replay_approvals", "batch write"},
	Publisher: {"batch write", "invoke alias", "invoke version", "invoke latest", "invoke other function"},
	Cleaner: {
		"insert task_records", "update task_records", "insert reviews", "update reviews", "insert dead_letters", "update dead_letters",
		"insert replay_plans", "update replay_plans", "insert replay_items", "update replay_items", "insert replay_approvals", "update replay_approvals",
		"insert repair_evidence", "update repair_evidence", "batch write",
		"read output", "read approved", "read letter", "read letter version", "read content", "read elsewhere",
		"write output", "write approved", "write letter", "write content", "write elsewhere",
		"invoke alias", "invoke version", "invoke latest", "invoke other function",
	},
	Deployer: {
		"batch write", "read output", "read approved", "read letter", "read letter version", "read content", "read elsewhere",
		"write output", "write approved", "write letter", "write content", "write elsewhere", "delete letter", "drop letter version", "drop output version",
		"invoke alias", "invoke version", "invoke latest", "invoke other function",
	},
}

func neverOf(role Role) map[string]bool {
	out := map[string]bool{}
	for _, name := range never[role] {
		verb, table, _ := strings.Cut(name, " ")
		if _, isTable := may["insert "+table]; verb != "write" || !isTable {
			out[name] = true
			continue
		}
		for _, verb := range []string{"insert ", "update ", "delete "} {
			out[verb+table] = true
		}
	}
	if role == Deployer || role == Publisher {
		for _, t := range tables {
			if role == Deployer && (t.Name == "foreign" || t.Name == "oncegate_doctor_probe") {
				continue // hold no data of ours
			}
			for _, verb := range []string{"get ", "scan ", "insert ", "update ", "delete "} {
				out[verb+t.Name] = true
			}
		}
	}
	return out
}

const everything = `{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`

func TestADenyHoldsThoughAnotherPolicyAllowsEverything(t *testing.T) {
	r, ops := newRoom(t), operations()
	for _, role := range Roles {
		got, want := r.verdicts(t, ops, parse(t, render(t, role)), parse(t, []byte(everything))), neverOf(role)
		for _, op := range ops {
			if got[op.name] != want[op.name] {
				t.Errorf("%s, %s: refused: %v, want %v", role, op.name, got[op.name], want[op.name])
			}
		}
		for name := range want {
			if _, ok := may[name]; !ok {
				t.Errorf("%s: there is no operation %q", role, name)
			}
		}
	}
}

// beyond are actions that no stand-in carries out.
var beyond = []string{"ots:InsertInstance", "oss:ListBuckets", "fc:Create*", "eventbridge:*EventBus", "eventbridge:ListEventStreamings", "mns:*Queue*", "ram:PassRole"}

func TestEachStatementIsHeldByAnOperation(t *testing.T) {
	r, ops := newRoom(t), operations()
	for _, role := range Roles {
		var doc struct {
			Version   string
			Statement []map[string]any
		}
		if err := json.Unmarshal(render(t, role), &doc); err != nil {
			t.Fatal(err)
		}
		right := func(statements []map[string]any) bool {
			changed := doc
			changed.Statement = statements
			raw, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			alone, beside, want := r.verdicts(t, ops, parse(t, raw)), r.verdicts(t, ops, parse(t, raw), parse(t, []byte(everything))), neverOf(role)
			for _, op := range ops {
				if alone[op.name] == slices.Contains(strings.Fields(may[op.name]), string(role)) || beside[op.name] != want[op.name] {
					return false
				}
			}
			return true
		}
		if !right(doc.Statement) {
			t.Errorf("%s is wrong as it is", role)
		}
		for i, s := range doc.Statement {
			if slices.Contains(beyond, list(s["Action"])[0]) {
				continue
			}
			if right(slices.Delete(slices.Clone(doc.Statement), i, i+1)) {
				t.Errorf("%s: without its statement %d nothing goes red: %v", role, i, s)
			}
			wide := map[string]any{"Effect": s["Effect"], "Action": s["Action"], "Resource": "*"}
			all := slices.Clone(doc.Statement)
			all[i] = wide
			if whole := list(s["Resource"])[0]; whole != "*" && !strings.HasSuffix(whole, "/table/*") && right(all) {
				t.Errorf("%s: with statement %d about every resource nothing goes red: %v", role, i, s)
			}
		}
	}
}
