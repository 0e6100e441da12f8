package aliyun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// STS asks who its credentials belong to. It is safe for concurrent use.
type STS struct{ api *openAPI }

// NewSTS returns a client of an endpoint such as https://sts.aliyuncs.com; it
// makes no call.
func NewSTS(endpoint string, o Options) (*STS, error) {
	api, err := newOpenAPI("sts", "2015-04-01", endpoint, o)
	if err != nil {
		return nil, err
	}
	return &STS{api}, nil
}

// Identity is who the cloud says that a call comes from.
type Identity struct {
	ARN         string
	AccountID   string
	Type        string // Account, RAMUser or AssumedRoleUser
	PrincipalID string
}

// CallerIdentity returns whom the credentials belong to. It needs no right. An
// answer that names nobody is an error.
func (s *STS) CallerIdentity(ctx context.Context) (Identity, error) {
	ans, err := s.api.call(ctx, "GetCallerIdentity", "", "/", "", nil, callTimeout)
	if err != nil {
		return Identity{}, err
	}
	// Field names are matched without regard to case: Arn, AccountId, PrincipalId.
	var wire struct{ ARN, AccountID, IdentityType, PrincipalID string }
	if err := json.Unmarshal(ans.body, &wire); err != nil {
		return Identity{}, errors.New("read caller identity: the answer is no JSON object of texts")
	}
	id := Identity{wire.ARN, wire.AccountID, wire.IdentityType, wire.PrincipalID}
	return id, id.Check()
}

// ErrNoIdentity is an identity that nobody can be told by.
var ErrNoIdentity = errors.New("the identity names nobody")

// Check refuses an identity whose ARN has an unknown form.
func (i Identity) Check() error {
	if kind, _, _ := i.parts(); kind == "" {
		return fmt.Errorf("read caller identity: %w", ErrNoIdentity)
	}
	return nil
}

// Name is short and for people, and equal where role (or user) and session are:
//
//	acs:ram::1:assumed-role/oncegate-operator/amy   oncegate-operator/amy
//	acs:ram::1:user/amy                             amy
//	acs:ram::1:root                                 account 1
//
// It is "" where Check fails.
func (i Identity) Name() string {
	switch kind, name, session := i.parts(); kind {
	case "assumed-role":
		return name + "/" + session
	case "user":
		return name
	case "root":
		return "account " + name
	}
	return ""
}

// Role is the name of the assumed role, "" for a user or an account.
func (i Identity) Role() string {
	if kind, name, _ := i.parts(); kind == "assumed-role" {
		return name
	}
	return ""
}

// User is the name of the RAM user, "" for a role or an account.
func (i Identity) User() string {
	if kind, name, _ := i.parts(); kind == "user" {
		return name
	}
	return ""
}

// parts takes an ARN apart; kind is "" for a form that is not known.
func (i Identity) parts() (kind, name, session string) {
	f := strings.Split(i.ARN, ":")
	if len(f) != 5 || f[0] != "acs" || f[1] != "ram" || f[2] != "" || f[3] == "" {
		return "", "", ""
	}
	p := strings.Split(f[4], "/")
	switch {
	case f[4] == "root":
		return "root", f[3], ""
	case len(p) == 2 && p[0] == "user" && p[1] != "":
		return "user", p[1], ""
	case len(p) == 3 && p[0] == "assumed-role" && p[1] != "" && p[2] != "":
		return "assumed-role", p[1], p[2]
	}
	return "", "", ""
}
