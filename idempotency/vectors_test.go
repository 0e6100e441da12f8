package idempotency

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/oncegate/oncegate/internal/strictjson"
)

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func fieldsOf(t *testing.T, text string) []Field {
	t.Helper()
	v, err := strictjson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var fields []Field
	for name, value := range v.(map[string]any) {
		fields = append(fields, Field{Name: name, Value: value})
	}
	return fields
}

func TestKeyVectors(t *testing.T) {
	var file struct {
		Keys []struct{ Name, Fields, Canonical, Key string }
		Errs []struct {
			Name, Fields string
			ErrorField   string `json:"error_field"`
		} `json:"errors"`
		Sensitive struct {
			Secret string
			Cases  []struct{ Value, HMAC, Field, Canonical, Key string }
		}
		Effects []struct {
			Name           string
			Fields         map[string]string
			Canonical, Key string
		}
	}
	readVectors(t, "keys.json", &file)
	if len(file.Keys) == 0 || len(file.Errs) == 0 || len(file.Sensitive.Cases) == 0 || len(file.Effects) == 0 {
		t.Fatal("vectors are missing")
	}
	for _, c := range file.Keys {
		t.Run(c.Name, func(t *testing.T) {
			k, err := DeriveKey(fieldsOf(t, c.Fields), nil)
			if err != nil || k.Canonical != c.Canonical || k.Hex != c.Key {
				t.Errorf("got %v %v, want %s", k, err, c.Key)
			}
		})
	}
	for _, c := range file.Errs {
		t.Run(c.Name+" is refused", func(t *testing.T) {
			_, err := DeriveKey(fieldsOf(t, c.Fields), nil)
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Field != c.ErrorField {
				t.Errorf("got %v, want an error of field %s", err, c.ErrorField)
			}
		})
	}
	for _, c := range file.Sensitive.Cases {
		fields := []Field{
			{Name: "operation", Value: "send"},
			{Name: "task_type", Value: "notice"},
			{Name: "tenant_id", Value: "t1"},
			{Name: c.Field, Value: c.Value, Sensitive: true},
		}
		k, err := DeriveKey(fields, []byte(file.Sensitive.Secret))
		if err != nil || k.Canonical != c.Canonical || k.Hex != c.Key {
			t.Errorf("sensitive: got %v %v, want %s", k, err, c.Key)
		}
		if _, err := DeriveKey(fields, nil); err == nil {
			t.Error("a sensitive field without a secret made a key")
		}
	}
	for _, c := range file.Effects {
		var fields []Field
		for name, value := range c.Fields {
			fields = append(fields, Field{Name: name, Value: value})
		}
		k, err := DeriveKey(fields, nil)
		if err != nil || k.Canonical != c.Canonical || k.Hex != c.Key || HashOf(c.Fields) != c.Key {
			t.Errorf("effect %s: got %v %v, want %s", c.Name, k, err, c.Key)
		}
	}
}

func TestDigestVectors(t *testing.T) {
	var file struct {
		Binary []struct {
			Data   string `json:"data_base64"`
			Digest string
		}
		Digests []struct{ Data, Canonical, Digest string }
		Errors  []struct{ Data string }
	}
	readVectors(t, "digests.json", &file)
	if len(file.Binary) == 0 || len(file.Digests) == 0 || len(file.Errors) == 0 {
		t.Fatal("vectors are missing")
	}
	for _, c := range file.Digests {
		v, err := strictjson.Check([]byte(c.Data))
		if err != nil {
			t.Fatal(err)
		}
		if canonical := AppendCanonical(nil, v); string(canonical) != c.Canonical {
			t.Errorf("%s: got %s, want %s", c.Data, canonical, c.Canonical)
		}
		if got := Digest(v); got != c.Digest {
			t.Errorf("%s: got %s, want %s", c.Data, got, c.Digest)
		}
	}
	for _, c := range file.Binary {
		raw, err := base64.StdEncoding.DecodeString(c.Data)
		if err != nil {
			t.Fatal(err)
		}
		if got := DigestBinary(raw); got != c.Digest {
			t.Errorf("binary: got %s, want %s", got, c.Digest)
		}
	}
	for _, c := range file.Errors {
		if _, err := strictjson.Parse([]byte(c.Data)); err == nil {
			t.Errorf("%s was accepted", c.Data)
		}
	}
}

func FuzzDigestNumber(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1e999999999", "12.50", "1E+2", "-1e-99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := strictjson.Check([]byte(s))
		if err != nil || v.Kind() != '0' {
			return
		}
		first := AppendCanonical(nil, v)
		if v, err = strictjson.Check(first); err != nil {
			t.Fatalf("%q: canonical form %s is no number: %v", s, first, err)
		}
		if again := AppendCanonical(nil, v); string(again) != string(first) {
			t.Fatalf("%q: canonical form is not a fixed point: %s then %s", s, first, again)
		}
	})
}
