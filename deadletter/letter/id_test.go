package letter

import (
	"testing"

	"github.com/oncegate/oncegate/idempotency"
)

func TestCodeOfFollowsTheRecordsCode(t *testing.T) {
	for code, want := range map[idempotency.Code]Code{
		"":                                   "TIMEOUT",
		idempotency.CodeTimeout:              "TIMEOUT",
		idempotency.CodeRateLimited:          "THROTTLED",
		idempotency.CodeTemporaryUnavailable: "UPSTREAM_5XX",
		idempotency.CodeInvalidRequest:       "INVALID_SCHEMA",
		idempotency.CodePermissionDenied:     "ACCESS_DENIED",
		idempotency.CodeTargetNotFound:       "TARGET_NOT_FOUND",
		idempotency.CodePolicyRejected:       "POLICY_REJECTED",
		idempotency.CodeUnclassified:         "UNCLASSIFIED",
		"a_new_code":                         "UNCLASSIFIED",
	} {
		if got := CodeOf(code); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
}

func TestClassOfACode(t *testing.T) {
	for code, want := range map[Code]Class{
		CodeTimeout: ClassTransient, CodeThrottled: ClassTransient, CodeUpstream5xx: ClassTransient,
		CodeInvalidSchema: ClassPermanent, CodeAccessDenied: ClassPermanent, CodeTargetNotFound: ClassPermanent, CodePolicyRejected: ClassPermanent,
		CodeUnclassified: ClassUncertain, CodeConflict: ClassUncertain, CodeOutcomeUnknown: ClassUncertain, CodeParked: ClassUncertain,
		CodeWrongEnvironment: ClassUncertain, "UNDELIVERED": ClassUncertain, "": ClassUncertain, "timeout": ClassUncertain, "SOME_NEW_CODE": ClassUncertain,
	} {
		if got := code.Class(); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
}

func TestFingerprintHoldsCodeAndTargetAlone(t *testing.T) {
	a := Fingerprint(CodeTimeout, "model:m")
	for name, other := range map[string]string{
		"another code":   Fingerprint(CodeThrottled, "model:m"),
		"another target": Fingerprint(CodeTimeout, "model:n"),
	} {
		if other == a {
			t.Errorf("S46 %s is the same group", name)
		}
	}
	s := newStand(t)
	one, two := letterAt(0), letterAt(0)
	two.ID, two.Reason = "another", "another text"
	if s.open(one).Fingerprint != s.open(two).Fingerprint {
		t.Error("S46 another text is another group")
	}
}

func TestLetterIDsAreDerivedAndStable(t *testing.T) {
	id := ID("shop", "e1", "d1")
	if id != "4315f541c1deaa0c7bea2d4aa4c7f132f1105b3eab375419a9ce9bf317cecf64" {
		t.Errorf("got %s", id)
	}
	if raw := RawID("ab"); raw != "b3b0fb49a623c7e2d1805807726a10726d118a88d5572e5d6629cd3e1e758a90" {
		t.Errorf("got %s", raw)
	}
	for name, other := range map[string]string{
		"source": ID("shop2", "e1", "d1"), "event id": ID("shop", "e2", "d1"), "digest": ID("shop", "e1", "d2"),
		"shifted fields": ID("e1", "shop", "d1"), "raw": RawID("d1"),
	} {
		if other == id {
			t.Errorf("another %s has the same id", name)
		}
	}
}
