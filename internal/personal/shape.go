package personal

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// Expressions of what may be of a shape. Go's have no look-around: what stands
// beside a match is looked at by hand.
var (
	accessKey = regexp.MustCompile(`LTAI[0-9A-Za-z]{12,26}|STS\.[0-9A-Za-z]{16,64}`)
	bearer    = regexp.MustCompile(`(?i:bearer)[ \t]+([0-9A-Za-z._~+/-]{16,}=*)`)
	stsToken  = regexp.MustCompile(`CAI[Sa-z][0-9A-Za-z+/]{80,}={0,2}`)
	jwt       = regexp.MustCompile(`(eyJ[0-9A-Za-z_-]{8,})\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*`)
	idCard    = regexp.MustCompile(`[1-9][0-9]{16}[0-9Xx]`)
	phone     = regexp.MustCompile(`(?:(?:\+|00)86[ -]?)?1[3-9][0-9](?:[0-9]{8}|([ -])[0-9]{4}([ -])[0-9]{4})`)
)

// shapesIn returns the shapes of which a text holds a value, each once.
func shapesIn(s string) []Shape {
	var shapes []Shape
	if holds(s, accessKey, func(m []string) bool { return strings.ContainsAny(m[0], "0123456789") }) {
		shapes = append(shapes, AccessKey)
	}
	if holds(s, jwt, func(m []string) bool { return isJOSE(m[1]) }) || holds(s, stsToken, nil) ||
		holds(s, bearer, func(m []string) bool { return strings.ContainsAny(m[1], "0123456789") }) {
		shapes = append(shapes, Token)
	}
	if holds(s, idCard, func(m []string) bool { return isIDCard(m[0]) }) {
		shapes = append(shapes, IDCard)
	}
	if holds(s, phone, func(m []string) bool { return m[1] == m[2] }) {
		shapes = append(shapes, Phone)
	}
	return shapes
}

// holds reports whether a match that stands alone is right.
func holds(s string, re *regexp.Regexp, right func(groups []string) bool) bool {
	for from := 0; from < len(s); {
		at := re.FindStringSubmatchIndex(s[from:])
		if at == nil {
			return false
		}
		start, end := from+at[0], from+at[1]
		groups := make([]string, len(at)/2)
		for i := range groups {
			if at[2*i] >= 0 {
				groups[i] = s[from+at[2*i] : from+at[2*i+1]]
			}
		}
		if !joined(s, start, end) && (right == nil || right(groups)) {
			return true
		}
		from = start + 1
	}
	return false
}

// joined reports whether a match is a part of a longer word or number.
func joined(s string, start, end int) bool {
	before := start > 0 && (word(s[start-1]) || start > 1 && (s[start-1] == '.' || s[start-1] == '-' || s[start-1] == '+') && word(s[start-2]))
	after := end < len(s) && (word(s[end]) || end+1 < len(s) && (s[end] == '.' || s[end] == '-') && word(s[end+1]))
	return before || after
}

func word(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// isJOSE reports whether a JWT's first part is a header of one.
func isJOSE(part string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	var header struct {
		Alg string `json:"alg"`
	}
	return err == nil && json.Unmarshal(raw, &header) == nil && header.Alg != ""
}

// isIDCard checks region, birthday and check digit of a number as GB 11643-1999
// has it.
func isIDCard(s string) bool {
	if s[0] > '8' {
		return false
	}
	birth, err := time.Parse("20060102", s[6:14])
	if err != nil || birth.Year() < 1900 || birth.Year() > 2099 {
		return false
	}
	weight := [...]int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2}
	sum := 0
	for i, w := range weight {
		sum += w * int(s[i]-'0')
	}
	return strings.ToUpper(s[17:]) == "10X98765432"[sum%11:sum%11+1]
}
