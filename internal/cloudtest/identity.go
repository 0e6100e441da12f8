package cloudtest

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Where the stand-ins are, unless they are told otherwise.
const (
	Region    = "cn-hangzhou"
	AccountID = "1234567890123456"
)

// Identity is whom a credential belongs to, and what policies are attached.
type Identity struct {
	ARN         string // acs:ram::1:assumed-role/oncegate-operator/amy
	AccountID   string
	Type        string // RAMUser or AssumedRoleUser
	PrincipalID string
	Policies    []Policy
}

// AssumedRole is a session of a role in the stand-ins' own account.
func AssumedRole(role, session string, policies ...Policy) *Identity {
	return &Identity{
		"acs:ram::" + AccountID + ":assumed-role/" + role + "/" + session, AccountID, "AssumedRoleUser",
		number(role) + ":" + session, policies,
	}
}

// RAMUser is a user in the stand-ins' own account.
func RAMUser(name string, policies ...Policy) *Identity {
	return &Identity{"acs:ram::" + AccountID + ":user/" + name, AccountID, "RAMUser", number(name), policies}
}

// number is an id of the form that RAM gives: always the same for one name.
func number(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strconv.FormatUint(3e17+binary.BigEndian.Uint64(sum[:])%1e17, 10)
}
