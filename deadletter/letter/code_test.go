package letter

import (
	"encoding/json"
	"os"
	"testing"
)

func TestFingerprintVectors(t *testing.T) {
	var file struct {
		Fingerprints []struct {
			ErrorCode   Code `json:"error_code"`
			Target      string
			Fingerprint string
		}
	}
	raw, err := os.ReadFile("testdata/fingerprints.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Fingerprints) == 0 {
		t.Fatal(err)
	}
	for _, c := range file.Fingerprints {
		if got := Fingerprint(c.ErrorCode, c.Target); got != c.Fingerprint {
			t.Errorf("%s|%s: got %s, want %s", c.ErrorCode, c.Target, got, c.Fingerprint)
		}
	}
}
