package cloudtest

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// Credential is one STS credential as a cloud service hands it out.
type Credential struct {
	AccessKeyID     string
	AccessKeySecret string
	SecurityToken   string    // empty for a long-lived key
	Expires         time.Time // zero: never
	Identity        *Identity // whom it belongs to; nil: to nobody in particular, who may do everything
}

// Allows says whether policies let the credential's identity do something. In
// the stand-ins a credential without an identity may do everything.
func (c Credential) Allows(a Access) bool {
	return c.Identity == nil || Evaluate(c.Identity.Policies, a) == Allow
}

// Credentials is the set that the stand-ins accept. The zero value accepts
// none; all methods are safe for concurrent use.
type Credentials struct {
	mu   sync.Mutex
	held map[string]Credential
}

// Issue makes a new STS credential that is accepted from now until expires
// (zero: until it is revoked).
func (c *Credentials) Issue(expires time.Time) Credential { return c.IssueTo(nil, expires) }

// IssueTo is Issue for an identity, whose policies hold for every call.
func (c *Credentials) IssueTo(id *Identity, expires time.Time) Credential {
	var b [24]byte
	_, _ = rand.Read(b[:])
	h := hex.EncodeToString(b[:])
	cred := Credential{"STS." + h[:16], h[16:32], "token-" + h[32:], expires, id}
	c.Add(cred)
	return cred
}

// Add accepts a credential that was made elsewhere.
func (c *Credentials) Add(cred Credential) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[string]Credential{}
	}
	c.held[cred.AccessKeyID] = cred
}

// Revoke stops accepting a key.
func (c *Credentials) Revoke(accessKeyID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, accessKeyID)
}

// Lookup returns the credential of a key; known is false where it was never
// issued or was revoked, expired is true where its time is over at now.
func (c *Credentials) Lookup(accessKeyID string, now time.Time) (cred Credential, known, expired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cred, known = c.held[accessKeyID]
	return cred, known, known && !cred.Expires.IsZero() && !now.Before(cred.Expires)
}
