package aliyun

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reading is an environment with one variable V.
func reading(v string) *Env {
	return NewEnv(func(name string) string {
		if name == "V" {
			return v
		}
		return ""
	})
}

func TestEnvReadsAndRefuses(t *testing.T) {
	const secret = "s3cret"
	duration := func(e *Env) any { return e.Duration("V", time.Minute) }
	factor := func(e *Env) any { return e.Factor("V", 1) }
	oneOf := func(e *Env) any { return e.OneOf("V", "first", "second") }
	address := func(e *Env) any { return e.URL("V") }
	for _, c := range []struct {
		name  string
		value string
		read  func(*Env) any
		want  any
		wrong string // in the error; "" for none
	}{
		{"a duration", "30s", duration, 30 * time.Second, ""},
		{"no duration", "", duration, time.Minute, ""},
		{"a duration in no unit", "30" + secret, duration, time.Minute, "positive duration"},
		{"a duration of zero", "0s", duration, time.Minute, "positive duration"},
		{"a negative duration", "-1s", duration, time.Minute, "positive duration"},
		{"a factor", " 0.5 ", factor, 0.5, ""},
		{"no factor", "", factor, 1.0, ""},
		{"a factor of zero", "0", factor, 1.0, "positive number"},
		{"a factor that is no number", "NaN", factor, 1.0, "positive number"},
		{"an endless factor", "Inf", factor, 1.0, "positive number"},
		{"a factor of words", secret, factor, 1.0, "positive number"},
		{"one of", "second", oneOf, "second", ""},
		{"none of", "", oneOf, "first", ""},
		{"another", secret, oneOf, "first", "one of first, second"},
		{"a URL", "https://host:1/p", address, "https://host:1/p", ""},
		{"a URL without a scheme", secret + ".host", address, secret + ".host", "must be a URL"},
		{"a URL of another scheme", "ftp://" + secret, address, "ftp://" + secret, "must be a URL"},
		{"a URL without a host", "https:///" + secret, address, "https:///" + secret, "must be a URL"},
		{"a URL that cannot be read", "https://%zz" + secret, address, "https://%zz" + secret, "must be a URL"},
		{"a needed one", " x ", func(e *Env) any { return e.Need("V") }, "x", ""},
		{"a needed one that is blank", "  ", func(e *Env) any { return e.Need("V") }, "", "not set: V"},
		{"a text", " x ", func(e *Env) any { return e.Text("V", "y") }, "x", ""},
		{"no text", " ", func(e *Env) any { return e.Text("V", "y") }, "y", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := reading(c.value)
			if got := c.read(e); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			err := e.Err()
			if (err == nil) != (c.wrong == "") {
				t.Fatalf("error %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "V") || strings.Contains(err.Error(), secret)) {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestCloudNamesAllThatIsMissingAtOnce(t *testing.T) {
	e := NewEnv(func(string) string { return "" })
	e.Cloud()
	err := e.Err()
	for _, name := range []string{
		"ONCEGATE_ENVIRONMENT", "ONCEGATE_TABLESTORE_ENDPOINT", "ONCEGATE_TABLESTORE_INSTANCE", "ONCEGATE_OSS_ENDPOINT", "ONCEGATE_OSS_BUCKET",
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	values := map[string]string{
		"ONCEGATE_ENVIRONMENT": "prod", "ONCEGATE_TABLESTORE_ENDPOINT": "https://i.ots", "ONCEGATE_TABLESTORE_INSTANCE": "i",
		"ONCEGATE_OSS_ENDPOINT": "https://oss", "ONCEGATE_OSS_BUCKET": "b", "ONCEGATE_SEAL_KEY": " key ",
	}
	for set, want := range map[string]string{"": "AES256", "KMS": "KMS", "bucket": ""} {
		values["ONCEGATE_OSS_ENCRYPTION"] = set
		e := NewEnv(func(name string) string { return values[name] })
		if diff := cmp.Diff(Cloud{"prod", "https://i.ots", "i", "https://oss", "b", want, "key"}, e.Cloud()); diff != "" || e.Err() != nil {
			t.Errorf("%v\n%s", e.Err(), diff)
		}
	}
}

func TestCredentialsHideTheirSecrets(t *testing.T) {
	c := Credentials{"id", "s3cret", "t0ken"}
	held := struct{ C Credentials }{c}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		texts = append(texts, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, held))
	}
	raw, err := json.Marshal(held)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, string(raw)) {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "t0ken") {
			t.Errorf("shown: %s", text)
		}
	}
}

func TestSkewIsTheDistanceOutsideTheDatesSecond(t *testing.T) {
	served := time.Date(2026, 3, 1, 8, 0, 10, 0, time.UTC)
	at := func(ms int) time.Time { return served.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		sent, answered time.Time
		want           time.Duration
	}{
		"inside the second":              {at(100), at(900), 0},
		"right at its beginning":         {at(-50), at(0), 0},
		"right at its end":               {at(1000), at(1500), 0},
		"this machine is ahead":          {at(6000), at(6100), 5 * time.Second},
		"this machine is behind":         {at(-5100), at(-5000), -5 * time.Second},
		"a long call around it":          {at(-60000), at(60000), 0},
		"a call that began before it":    {at(-9000), at(500), 0},
		"a millisecond beyond its end":   {at(1001), at(1002), time.Millisecond},
		"a millisecond before its start": {at(-2), at(-1), -time.Millisecond},
	} {
		t.Run("S11 "+name, func(t *testing.T) {
			s := new(Skew)
			s.observe(c.sent, c.answered, served.Format(http.TimeFormat))
			if got := s.Value(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			for _, date := range []string{"", "soon"} {
				s.observe(at(0), at(1), date)
				if got := s.Value(); got != c.want {
					t.Errorf("a date %q made it %v", date, got)
				}
			}
		})
	}
}

func TestBothServicesTellTheirTime(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": time.Minute, "behind": -time.Minute, "right": 0} {
		t.Run("S11 "+name, func(t *testing.T) {
			date := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
			now := func() time.Time { return time.Now().Add(ahead) }
			var calls int
			for service, call := range map[string]func(Options) error{
				"tablestore": func(o Options) error {
					s, err := NewTablestore("http://in-process", "i", o)
					if err != nil {
						return err
					}
					_, _, _ = s.Get(t.Context(), tasks, "k")
					return nil
				},
				"oss": func(o Options) error {
					b, err := NewBucket("http://127.0.0.1", "room", o)
					if err != nil {
						return err
					}
					_, _ = b.Get(t.Context(), "k", "")
					return nil
				},
			} {
				skew := new(Skew)
				if err := call(Options{Credentials: someone, Transport: answering(&calls, 503, date, []byte("x")), Now: now, Skew: skew}); err != nil {
					t.Fatal(err)
				}
				if got := skew.Value() - ahead; got < -2*time.Second || got > 2*time.Second {
					t.Errorf("%s: skew %v, want about %v", service, skew.Value(), ahead)
				}
			}
		})
	}
}
