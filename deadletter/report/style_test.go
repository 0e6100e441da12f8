package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var colour = regexp.MustCompile(`--([a-z0-9]+):#([0-9a-f]{3,6})`)

// palettes are the colours of the light and the dark pages.
func palettes(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for i, block := range regexp.MustCompile(`:root\{[^}]*\}`).FindAllString(style, -1) {
		p := map[string]string{}
		for _, m := range colour.FindAllStringSubmatch(block, -1) {
			p[m[1]] = m[2]
		}
		all[[]string{"light", "dark"}[i]] = p
	}
	if len(all) != 2 || len(all["light"]) != len(all["dark"]) || len(all["light"]) < 15 {
		t.Fatalf("got %v", all)
	}
	return all
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = strings.Repeat(hex[:1], 2) + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:], 2)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestColoursKeepTheContrastOfWCAGLevelAA(t *testing.T) {
	for name, p := range palettes(t) {
		for _, pair := range []struct {
			on, of string
			least  float64
		}{
			{"ink", "bg", 4.5},
			{"ink", "card", 4.5},
			{"ink", "code", 4.5},
			{"soft", "bg", 4.5},
			{"soft", "card", 4.5},
			{"soft", "code", 4.5},
			{"link", "card", 4.5},
			{"link", "bg", 4.5},
			{"link", "code", 4.5},
			{"ok", "okbg", 4.5},
			{"bad", "badbg", 4.5},
			{"warn", "warnbg", 4.5},
			{"info", "infobg", 4.5},
			{"ink", "okbg", 4.5},
			{"ink", "badbg", 4.5},
			{"bad", "card", 4.5},
			{"warn", "card", 4.5},
			{"bar", "card", 3},
			{"bar2", "card", 3},
		} {
			x, y := luminance(t, p[pair.on]), luminance(t, p[pair.of])
			if ratio := (max(x, y) + 0.05) / (min(x, y) + 0.05); ratio < pair.least {
				t.Errorf("%s: %s on %s has %.2f", name, pair.on, pair.of, ratio)
			}
		}
	}
}
