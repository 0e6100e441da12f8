package letter

import (
	"testing"

	"github.com/oncegate/oncegate/idempotency"
)

func TestARowSaysWhereItsRawBytesAre(t *testing.T) {
	for text, want := range map[string]idempotency.Ref{
		"dead-letters/x/event.bin":                             {Object: "dead-letters/x/event.bin", SHA256: "aa"}, // of before references
		"dead-letters/x/event.bin?sha256=aa":                   {Object: "dead-letters/x/event.bin", SHA256: "aa"},
		"dead-letters/x/event.bin?sha256=aa&version_id=CAE%3D": {Object: "dead-letters/x/event.bin", VersionID: "CAE=", SHA256: "aa"},
	} {
		if got, err := (Letter{RawRef: text, RawSHA256: "aa"}).Raw(); err != nil || got != want {
			t.Errorf("%s: got %+v %v", text, got, err)
		}
	}
	for name, l := range map[string]Letter{
		"nothing":            {},
		"no reference":       {RawSHA256: "aa"},
		"no hash":            {RawRef: "dead-letters/x/event.bin"},
		"two hashes":         {RawRef: "dead-letters/x/event.bin?sha256=bb", RawSHA256: "aa"},
		"a broken reference": {RawRef: "dead-letters/x/event.bin?sha256=%zz", RawSHA256: "aa"},
	} {
		if got, err := l.Raw(); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
