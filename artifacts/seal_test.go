package artifacts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

const planted = "13800001111"

func newKey(t *testing.T) *PrivateKey {
	t.Helper()
	k, err := NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealedStand is a bucket whose letters are sealed, with one letter in it.
func sealedStand(t *testing.T) (s *stand, key *PrivateKey, raw []byte, ref idempotency.Ref) {
	t.Helper()
	s, key = newStand(t, "AES256"), newKey(t)
	s.store = s.store.Sealing(key.Public())
	raw = []byte(`{"phone":"` + planted + `"}`)
	return s, key, raw, s.letter("l1", raw)
}

func (s *stand) letter(id string, raw []byte) idempotency.Ref {
	s.t.Helper()
	ref, err := s.store.PutLetter(s.t.Context(), id, raw)
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

// replaced puts what an attacker with a right to write would, and returns the version.
func (s *stand) replaced(o osstest.Object, name string) string {
	s.t.Helper()
	version, err := s.bucket.Put(s.t.Context(), name, aliyun.Object{Body: o.Body, ContentType: o.ContentType, Metadata: o.Metadata})
	if err != nil {
		s.t.Fatal(err)
	}
	return version
}

func (s *stand) refuses(id string, ref idempotency.Ref, keys PrivateKeys, want error) {
	s.t.Helper()
	got, err := s.store.ReadLetter(s.t.Context(), id, ref, keys)
	if !errors.Is(err, want) || got != nil {
		s.t.Errorf("got %q, %v, want %v", got, err, want)
	}
	if err != nil && strings.Contains(err.Error(), planted) {
		s.t.Errorf("the error shows the event: %v", err)
	}
}

func TestASealedLetterIsReadWithItsPrivateKeyAlone(t *testing.T) {
	s, key, raw, ref := sealedStand(t)
	got, err := s.store.ReadLetter(t.Context(), "l1", ref, PrivateKeys{key})
	if err != nil || !bytes.Equal(got, raw) {
		t.Fatalf("got %q %v", got, err)
	}
	s.refuses("l1", ref, nil, ErrSealed)
	other := newKey(t)
	s.refuses("l1", ref, PrivateKeys{other}, ErrSealed)
	_, err = s.store.ReadLetter(t.Context(), "l1", ref, PrivateKeys{other})
	for _, said := range []string{key.Public().ID(), other.Public().ID(), "ONCEGATE_SEAL_PRIVATE_KEY_FILE"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("%s is not in %v", said, err)
		}
	}
}

func TestASealedObjectShowsNothingAndKeepsItsLifecycle(t *testing.T) {
	s, key, raw, ref := sealedStand(t)
	o := s.srv.Objects("room")[0]
	if bytes.Contains(o.Body, []byte(planted)) || strings.Contains(fmt.Sprint(o.Key, o.Metadata, o.Tags), planted) {
		t.Errorf("the object shows the event: %+v", o)
	}
	if over := len(o.Body) - len(raw); over != 48 {
		t.Errorf("sealing adds %d bytes, want the 32 of the encapsulated key and the 16 of the tag", over)
	}
	want := map[string]string{
		"oncegate-sha256": sum(raw), "oncegate-seal-key": key.Public().ID(), "oncegate-seal-suite": "hpke-0020-0001-0002",
		"oncegate-sealed-sha256": sum(o.Body),
	}
	if !maps.Equal(o.Metadata, want) || !maps.Equal(o.Tags, map[string]string{"class": "letter"}) || o.SSE != "AES256" || ref.SHA256 != sum(raw) {
		t.Errorf("got %+v, reference %+v", o, ref)
	}
	again := s.letter("l1", raw)
	all := s.srv.Objects("room")
	if bytes.Equal(all[0].Body, all[1].Body) || again.VersionID == ref.VersionID {
		t.Error("the same bytes were sealed to the same bytes")
	}
}

func TestAnEmptyEventIsSealedToo(t *testing.T) {
	s, key, _, _ := sealedStand(t)
	ref := s.letter("l2", nil)
	if got, err := s.store.ReadLetter(t.Context(), "l2", ref, PrivateKeys{key}); err != nil || len(got) != 0 {
		t.Errorf("got %q %v", got, err)
	}
}

func TestAChangedByteAnywhereIsNoticed(t *testing.T) {
	s, key, _, ref := sealedStand(t)
	stored := s.srv.Objects("room")[0]
	for i := range stored.Body {
		for _, sumsToo := range []bool{false, true} {
			o := stored
			o.Body, o.Metadata = slices.Clone(stored.Body), maps.Clone(stored.Metadata)
			o.Body[i] ^= 1
			if sumsToo {
				o.Metadata[metaSealedSHA256] = sum(o.Body)
			}
			ref.VersionID = s.replaced(o, stored.Key)
			s.refuses("l1", ref, PrivateKeys{key}, ErrAltered)
		}
	}
	for name, edit := range map[string]func(*osstest.Object){
		"cut":                 func(o *osstest.Object) { o.Body = o.Body[:len(o.Body)-1] },
		"longer":              func(o *osstest.Object) { o.Body = append(o.Body, 0) },
		"shorter than a key":  func(o *osstest.Object) { o.Body = o.Body[:31] },
		"empty":               func(o *osstest.Object) { o.Body = nil },
		"a low-order sender":  func(o *osstest.Object) { clear(o.Body[:32]) },
		"not sealed any more": func(o *osstest.Object) { delete(o.Metadata, metaSealKey) },
	} {
		t.Run(name, func(t *testing.T) {
			o := stored
			o.Body, o.Metadata = slices.Clone(stored.Body), maps.Clone(stored.Metadata)
			edit(&o)
			o.Metadata[metaSealedSHA256] = sum(o.Body)
			ref.VersionID = s.replaced(o, stored.Key)
			s.refuses("l1", ref, PrivateKeys{key}, ErrAltered)
		})
	}
}

func TestTheSumOfTheSealedBytesIsHeldWithoutTheKey(t *testing.T) {
	s, _, _, ref := sealedStand(t)
	o := s.srv.Objects("room")[0]
	o.Body = slices.Clone(o.Body)
	o.Body[40] ^= 1
	ref.VersionID = s.replaced(o, o.Key)
	s.refuses("l1", ref, nil, ErrAltered)
}

func TestAMovedObjectDoesNotOpen(t *testing.T) {
	s, key, raw, ref := sealedStand(t)
	o := s.srv.Objects("room")[0]
	moved := idempotency.Ref{Object: LetterName("l2"), VersionID: s.replaced(o, LetterName("l2")), SHA256: sum(raw)}
	s.refuses("l2", moved, PrivateKeys{key}, ErrAltered)
	// Nor does a reference lead to the object of another letter.
	s.refuses("l2", ref, PrivateKeys{key}, ErrAltered)
}

func TestOtherBytesSealedToTheSameKeyAreNotTheLetter(t *testing.T) {
	s, key, raw, _ := sealedStand(t)
	forged := s.letter("l1", []byte(`{"phone":"forged"}`))
	forged.SHA256 = sum(raw)
	s.refuses("l1", forged, PrivateKeys{key}, ErrAltered)
	plain := newStand(t, "")
	stored := plain.letter("l1", []byte("forged"))
	stored.SHA256 = sum(raw)
	plain.refuses("l1", stored, nil, ErrAltered)
	stored.SHA256 = ""
	plain.refuses("l1", stored, nil, ErrAltered)
}

func TestAnotherSuiteIsRefusedByName(t *testing.T) {
	s, key, _, ref := sealedStand(t)
	o := s.srv.Objects("room")[0]
	o.Metadata = maps.Clone(o.Metadata)
	o.Metadata[metaSealSuite] = "hpke-647a-0001-0002"
	ref.VersionID = s.replaced(o, o.Key)
	s.refuses("l1", ref, PrivateKeys{key}, ErrSealed)
}

func TestRotationLeavesOldLettersToTheOldKey(t *testing.T) {
	s, old, raw, before := sealedStand(t)
	fresh := newKey(t)
	s.store = s.store.Sealing(fresh.Public())
	after := s.letter("l2", raw)
	for id, ref := range map[string]idempotency.Ref{"l1": before, "l2": after} {
		if got, err := s.store.ReadLetter(t.Context(), id, ref, PrivateKeys{fresh, old}); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: %q %v", id, got, err)
		}
	}
	s.refuses("l1", before, PrivateKeys{fresh}, ErrSealed)
	s.refuses("l2", after, PrivateKeys{old}, ErrSealed)
}

func TestALetterFromBeforeSealingNeedsNoKey(t *testing.T) {
	s := newStand(t, "")
	ref := s.letter("l1", []byte("plain"))
	for _, keys := range []PrivateKeys{nil, {newKey(t)}} {
		if got, err := s.store.ReadLetter(t.Context(), "l1", ref, keys); err != nil || string(got) != "plain" {
			t.Errorf("got %q %v", got, err)
		}
	}
	if s.store.Sealing(nil).seal != nil {
		t.Error("no key seals")
	}
}

func TestAMissingLetterIsNotFound(t *testing.T) {
	s := newStand(t, "")
	_, err := s.store.ReadLetter(t.Context(), "l1", idempotency.Ref{Object: LetterName("l1"), SHA256: "x"}, nil)
	if aliyun.KindOf(err) != aliyun.KindNotFound {
		t.Errorf("got %v", err)
	}
}

func TestEachReferenceReadsTheBytesWhoseHashItNames(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		s, key, _, _ := sealedStand(t)
		if !sealed {
			s.store = s.store.Sealing(nil)
		}
		bodies := []string{`{"a":1}`, `{"a":1 }`}
		refs := []idempotency.Ref{s.letter("l9", []byte(bodies[0])), s.letter("l9", []byte(bodies[1]))}
		for i, ref := range refs {
			back, err := idempotency.ParseRef(ref.String())
			if err != nil || back != ref {
				t.Fatalf("%v became %v %v", ref, back, err)
			}
			if got, err := s.store.ReadLetter(t.Context(), "l9", back, PrivateKeys{key}); err != nil || string(got) != bodies[i] {
				t.Errorf("sealed %v: reference %d reads %q %v", sealed, i, got, err)
			}
		}
	}
}

func TestKeysAreReadAsTheyAreWritten(t *testing.T) {
	k := newKey(t)
	public, err := ParseSealKey("  " + k.Public().String() + "\n")
	if err != nil || public.ID() != k.Public().ID() || len(public.ID()) != 16 || public.String() != k.Public().String() {
		t.Fatalf("got %v %v", public, err)
	}
	text, err := k.Text()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParsePrivateKeys([]byte("# today's\r\n" + text + "\r\n\n"))
	if err != nil || !slices.Equal(keys.IDs(), []string{k.Public().ID()}) {
		t.Fatalf("got %v %v", keys, err)
	}
	sealed, err := public.seal("o", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := keys[0].open("o", sealed); err != nil || string(raw) != "x" {
		t.Errorf("got %q %v", raw, err)
	}
}

func TestTextsThatAreNoKeyAreRefusedAndNotQuoted(t *testing.T) {
	k := newKey(t)
	secret, err := k.Text()
	if err != nil {
		t.Fatal(err)
	}
	of := func(prefix string, raw ...byte) string { return prefix + base64.StdEncoding.EncodeToString(raw) }
	zero := make([]byte, 32)
	secretBody := strings.TrimPrefix(secret, privatePrefix)
	for _, text := range []string{
		"", planted, sealPrefix, sealPrefix + planted, of(sealPrefix, 0), of(sealPrefix, 0, 0x20), of(sealPrefix, append([]byte{0, 0x20}, zero[1:]...)...),
		of(sealPrefix, append([]byte{0, 0x20}, zero...)...), of(sealPrefix, append([]byte{0x64, 0x7a}, zero...)...),
		k.Public().String() + "AA", k.Public().String()[1:], k.Public().String() + "\n" + k.Public().String(), secret,
	} {
		if got, err := ParseSealKey(text); err == nil || strings.Contains(err.Error(), planted) || strings.Contains(err.Error(), secretBody) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "# nothing", planted, k.Public().String(), secret + "A", secret + "\n" + planted, of(privatePrefix, 0, 0x20, 1), secret + " " + secret,
		of(privatePrefix, append([]byte{0x64, 0x7a}, zero...)...),
	} {
		if got, err := ParsePrivateKeys([]byte(text)); err == nil || strings.Contains(err.Error(), planted) || strings.Contains(err.Error(), secretBody) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

func TestAPrivateKeyPrintsAsItsID(t *testing.T) {
	k := newKey(t)
	raw, err := k.private.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := k.Text()
	held := struct{ Keys PrivateKeys }{PrivateKeys{k}}
	js, err := json.Marshal(held)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{string(js)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{k, *k} {
			if got := fmt.Sprintf(verb, v); got != "private key "+k.Public().ID() {
				t.Errorf("%s prints %s", verb, got)
			}
		}
		shown = append(shown, fmt.Sprintf(verb, held))
	}
	for _, s := range shown {
		for _, secret := range []string{string(raw), fmt.Sprintf("%x", raw), fmt.Sprint(raw), strings.TrimPrefix(text, privatePrefix)} {
			if strings.Contains(s, secret) {
				t.Errorf("the private key is shown: %s", s)
			}
		}
	}
}

func TestALettersObjectsEndAsBeforeWhetherSealedOrNot(t *testing.T) {
	for _, r := range Expiry(90) {
		if r.TagValue == "letter" && (r.Prefix != "dead-letters/" || r.Days != 120) {
			t.Errorf("got %+v", r)
		}
	}
}
