package aliyun

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/messages"
)

// Env reads a configuration from environment variables and notes everything
// that is wrong, so that one look shows it all. Errors name variables, never values.
type Env struct {
	get      func(string) string
	missing  []string
	problems []error
}

// NewEnv reads through get, such as os.Getenv.
func NewEnv(get func(string) string) *Env { return &Env{get: get} }

// Need returns a variable that must be set.
func (e *Env) Need(name string) string {
	v := strings.TrimSpace(e.get(name))
	if v == "" {
		e.missing = append(e.missing, name)
	}
	return v
}

// Text returns a variable, or fallback where it is not set.
func (e *Env) Text(name, fallback string) string {
	if v := strings.TrimSpace(e.get(name)); v != "" {
		return v
	}
	return fallback
}

// URL returns an http or https URL that must be set.
func (e *Env) URL(name string) string {
	v := e.Need(name)
	if v == "" {
		return ""
	}
	if u, err := url.Parse(v); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		e.Reject(name, "must be a URL such as https://host")
	}
	return v
}

// Duration returns a positive duration such as 30s.
func (e *Env) Duration(name string, fallback time.Duration) time.Duration {
	v := e.Text(name, "")
	if v == "" {
		return fallback
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		e.Reject(name, "must be a positive duration such as 30s")
		return fallback
	}
	return d
}

// Factor returns a positive number.
func (e *Env) Factor(name string, fallback float64) float64 {
	v := e.Text(name, "")
	if v == "" {
		return fallback
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f > 0) || f > 1e6 {
		e.Reject(name, "must be a positive number")
		return fallback
	}
	return f
}

// OneOf returns a variable that must be one of a few words; the first is the default.
func (e *Env) OneOf(name string, words ...string) string {
	v := e.Text(name, words[0])
	for _, w := range words {
		if v == w {
			return v
		}
	}
	e.Reject(name, "must be one of "+strings.Join(words, ", "))
	return words[0]
}

// Reject notes that a variable cannot be used.
func (e *Env) Reject(name, reason string) {
	e.problems = append(e.problems, fmt.Errorf("environment variable %s %s", name, reason))
}

// Err joins all that is wrong, nil where nothing is.
func (e *Env) Err() error {
	problems := e.problems
	if len(e.missing) > 0 {
		problems = append([]error{messages.Errorf("environment variables are not set: %s", strings.Join(e.missing, ", "))}, problems...)
	}
	return errors.Join(problems...)
}

// Cloud says where the state of one environment lives.
type Cloud struct {
	Environment string // must equal what events name, by default their bus
	Endpoint    string // of the Tablestore instance
	Instance    string
	OSSEndpoint string
	Bucket      string
	Encryption  string // server-side encryption that objects ask for; "" for the bucket's setting
	SealKey     string // text of the public key that letters are sealed to; "" for none
}

// Cloud reads where the state lives.
func (e *Env) Cloud() Cloud {
	c := Cloud{
		Environment: e.Need("ONCEGATE_ENVIRONMENT"),
		Endpoint:    e.URL("ONCEGATE_TABLESTORE_ENDPOINT"),
		Instance:    e.Need("ONCEGATE_TABLESTORE_INSTANCE"),
		OSSEndpoint: e.URL("ONCEGATE_OSS_ENDPOINT"),
		Bucket:      e.Need("ONCEGATE_OSS_BUCKET"),
		Encryption:  e.OneOf("ONCEGATE_OSS_ENCRYPTION", "AES256", "KMS", "bucket"),
		SealKey:     e.Text("ONCEGATE_SEAL_KEY", ""),
	}
	if c.Encryption == "bucket" {
		c.Encryption = ""
	}
	return c
}
