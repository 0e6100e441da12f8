package otstest

import "github.com/oncegate/oncegate/internal/cloudtest"

// permits says whether a credential's policies allow a call: for a batch on
// every table that it names, else it fails as a whole. Resources are those of
// https://www.alibabacloud.com/help/en/tablestore/authorization-policy-syntax-and-elements.
func (e *engine) permits(cred cloudtest.Credential, action string, body []byte) bool {
	if cred.Identity == nil {
		return true
	}
	tables := tablesOf(action, body)
	for _, table := range tables {
		if !cred.Allows(cloudtest.Access{
			Action:   "ots:" + action,
			Resource: "acs:ots:" + cloudtest.Region + ":" + cloudtest.AccountID + ":instance/" + e.instance + "/table/" + table,
		}) {
			return false
		}
	}
	return len(tables) > 0
}

// tablesOf are the tables that a call names; ListTable is about all of them.
func tablesOf(action string, body []byte) []string {
	if action == "ListTable" {
		return []string{"*"}
	}
	var names []string
	for in := range fields(body, 1) {
		switch action {
		case "CreateTable", "BatchGetRow", "BatchWriteRow":
			in = field(in, 1)
		}
		names = append(names, string(in))
	}
	return names
}
