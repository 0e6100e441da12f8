package personal

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// Built here, so that no scanner takes this file for a leak. The id card number
// is the example of the standard.
var (
	keyID  = "LTAI" + "5tExample0Example0Ex"
	header = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`))
	jwtOne = header + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"1"}`)) + ".c2lnbmF0dXJl"
	card   = "11010519491231" + "002X"
	mobile = "138" + "00001111"
)

func TestShapesAreRecognisedAndNumbersOfBusinessesAreNot(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Shape
	}{
		{keyID, []Shape{AccessKey}},
		{"key=" + keyID + ", secret elsewhere", []Shape{AccessKey}},
		{"STS." + "NUexample0example0example", []Shape{AccessKey}},
		{"x" + keyID, nil},
		{"LTAI", nil},
		{"LTAIPEILIBRARYOFHISTORY", nil}, // no digit
		{jwtOne, []Shape{Token}},
		{"Bearer " + "abcdef0123456789abcdef", []Shape{Token}},
		{"the bearer of internationalisation", nil},
		{"CAIS" + strings.Repeat("aB3+", 30), []Shape{Token}},
		{"eyJhbGciOiJub25lIn0", nil}, // a header alone
		{"eyJhYWFhYWFhYWFh.bbbbbbbbbb.cccccccc", nil},
		{card, []Shape{IDCard}},
		{strings.ToLower(card), []Shape{IDCard}},
		{"身份证" + card + "。", []Shape{IDCard}},
		{"110105194912310021", nil}, // wrong check digit
		{"110105194913310023", nil}, // no such month
		{"202608041234567890", nil}, // an order number
		{"9" + card[1:], nil},
		{"1" + card, nil},
		{mobile, []Shape{Phone}},
		{"+86 " + mobile, []Shape{Phone}},
		{"0086" + mobile, []Shape{Phone}},
		{"138-0000-1111", []Shape{Phone}},
		{"138 0000-1111", nil},
		{"电话：" + mobile, []Shape{Phone}},
		{"12800001111", nil},
		{"1380000111", nil},
		{"138000011112", nil},
		{"1754300000123", nil}, // milliseconds
		{mobile + ".5", nil},
		{"0." + mobile, nil},
		{"order-" + mobile, nil},
		{"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", nil},
		{"7b2c1f0e-13800001111a-4a5b", nil},
		{"2026-08-04T10:00:00Z", nil},
		{"", nil},
	} {
		if diff := cmp.Diff(c.want, shapesIn(c.text)); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

func TestAFindingSaysWhereAndNeverWhat(t *testing.T) {
	tree, err := strictjson.Parse([]byte(`{"id":"e1","data":{"note":"call ` + mobile + `","n":` + mobile + `,
		"list":[1,{"a b":"` + keyID + `"}],"` + mobile + `":{"x":"` + card + `"},"owner":{"phone":"` + mobile + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := Find(tree, [][]any{{"data", "owner", "phone"}})
	want := []Finding{
		{"$.data.*", Phone},
		{"$.data.*.x", IDCard},
		{"$.data.list[1]['a b']", AccessKey},
		{"$.data.n", Phone},
		{"$.data.note", Phone},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	var list []any
	for range 100 {
		list = append(list, mobile)
	}
	if got := Find(list, nil); len(got) != maxFindings {
		t.Errorf("%d findings", len(got))
	}
}

// FuzzFind: no finding quotes a value, and none is made of a text that is known.
func FuzzFind(f *testing.F) {
	for _, s := range []string{keyID, jwtOne, card, mobile, "+86 " + mobile, "x"} {
		f.Add("note", s)
		f.Add(s, "x")
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, finding := range Find(map[string]any{"data": map[string]any{name: text, "n": json.Number("1")}}, nil) {
			if len(shapesIn(finding.Path)) > 0 {
				t.Errorf("the path %q shows a value", finding.Path)
			}
		}
		for _, finding := range Find(map[string]any{name: text}, [][]any{{name}}) {
			if finding.Path != "$.*" {
				t.Errorf("found at %q though it is known", finding.Path)
			}
		}
	})
}
