package otstest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/npmtest"
)

// TestNodeClient holds the stand-in against a client that shares no code with
// the Go SDK: it verifies the checksums of rows, which the Go SDK does not.
func TestNodeClient(t *testing.T) {
	modules := npmtest.Modules(t)
	s := newStand(t, Options{Now: time.Now}, true)
	at, err := json.Marshal(map[string]string{
		"endpoint": s.Endpoint(), "instance": "oncegate",
		"id": s.cred.AccessKeyID, "secret": s.cred.AccessKeySecret, "token": s.cred.SecurityToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := npmtest.Run(t, modules, string(at))
	if d := cmp.Diff(nodeWant(), got); d != "" {
		t.Fatal(d)
	}
}

// nodeWant is what the client must see, in the order of client.cjs.
func nodeWant() []string {
	return []string{
		`create a table: "ok"`,
		`create it again: "409 OTSObjectAlreadyExist"`,
		`describe it: {"key":[["k",2]],"ttl":-1,"versions":2}`,
		`update it: [86400,3,3600]`,
		`an unknown table: "404 OTSObjectNotExist"`,
		`put a row that must be absent: "ok"`,
		`put it again: "403 OTSConditionCheckFail"`,
		`get it: {"columns":[["b","bytes 00ff"],["f",2.5],["i",-7],["s","text é"],["t",true]],"key":["a"]}`,
		`get some columns of it: {"columns":[["i",-7],["t",true]],"key":["a"]}`,
		`get a page of its columns: {"columns":[["i",-7]],"key":["a"]}`,
		`get it through a filter: {"columns":[],"key":[]}`,
		`get an absent row: {"columns":[],"key":[]}`,
		`update under a condition that holds: "ok"`,
		`update under one that does not: "403 OTSConditionCheckFail"`,
		`update under both of two: "ok"`,
		`update under neither of two: "403 OTSConditionCheckFail"`,
		`the versions that are left: {"columns":[["s","newer"],["s","new"],["s","text é"]],"key":["a"]}`,
		`increments: [["n",5],["n",3]]`,
		`a put that returns its key: {"columns":[],"key":["key"]}`,
		`delete: {"columns":[],"key":[]}`,
		`delete it again: "403 OTSConditionCheckFail"`,
		`a batch that fails in part: ["b","OTSConditionCheckFail","c","OTSConditionCheckFail","ok"]`,
		`a batch that guards a row twice: "400 OTSParameterInvalid"`,
		`a batch of reads: [[["s","batch"]],[],[["s","newer"]]]`,
		`a range in pages: "a b | c counter"`,
		`a range backwards: "counter c | b"`,
		`a range through a filter: "b | c"`,
		`a range the wrong way round: "400 OTSParameterInvalid"`,
		`auto-increment keys: {"rising":true,"second":[["i",1]]}`,
		`an STS token: ["claims","log"]`,
		`a wrong secret: "403 OTSAuthFailed"`,
		`an unknown key: "403 OTSAuthFailed"`,
		`a wrong token: "403 OTSAuthFailed"`,
		`no token: "403 OTSAuthFailed"`,
		`another instance: "403 OTSAuthFailed"`,
		`delete the tables: []`,
	}
}
