package main

import (
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

// openAPIs are the endpoints of the local cloud that take signed OpenAPI calls.
type openAPIs struct {
	fc    *fctest.Front
	sts   *cloudtest.STS
	plane *ebtest.Plane // of EventBridge and its queues
}

func (s *stack) openAPIs(options stackOptions) (_ *openAPIs, err error) {
	o := new(openAPIs)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start local cloud: %w", err), o.Close())
		}
	}()
	if o.fc, err = s.front(); err != nil {
		return nil, err
	}
	if err := o.fc.Start(); err != nil {
		return nil, err
	}
	if o.sts, err = cloudtest.NewSTS(&s.creds, nil); err != nil {
		return nil, err
	}
	if err := o.sts.Start(); err != nil {
		return nil, err
	}
	if o.plane, err = s.plane(options); err != nil {
		return nil, err
	}
	if err := o.plane.Start(); err != nil {
		return nil, err
	}
	return o, nil
}

// Close stops what was started.
func (o *openAPIs) Close() error {
	var errs []error
	if o.fc != nil {
		errs = append(errs, o.fc.Close())
	}
	if o.sts != nil {
		errs = append(errs, o.sts.Close())
	}
	if o.plane != nil {
		errs = append(errs, o.plane.Close())
	}
	return errors.Join(errs...)
}

// upKeys are those of the role that ONCEGATE_LOCAL_IDENTITY names, or of a user
// who may do everything.
func (a *app) upKeys(s *stack) (keyPair, error) {
	if a.getenv(localIdentityVariable) != "" {
		id, err := a.localIdentity()
		if err != nil {
			return keyPair{}, err
		}
		return pairOf(issueTo(&s.creds, id)), nil
	}
	all, err := cloudtest.ParsePolicy([]byte(`{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`))
	if err != nil {
		return keyPair{}, err
	}
	return pairOf(issueTo(&s.creds, cloudtest.RAMUser("local", all))), nil
}

// roleKeys are keys of every role, for commands that act as one.
func (s *stack) roleKeys() (map[string]keyPair, error) {
	keys := map[string]keyPair{}
	for _, role := range ram.Roles {
		id, err := identityOf(role)
		if err != nil {
			return nil, err
		}
		keys[string(role)] = pairOf(issueTo(&s.creds, id))
	}
	return keys, nil
}

func pairOf(c aliyun.Credentials) keyPair {
	return keyPair{c.AccessKeyID, c.AccessKeySecret, c.SecurityToken}
}
