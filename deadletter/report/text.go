package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Texts are cut to these many characters.
const (
	cutName = 64  // ids, sources, codes, targets, identities
	cutText = 240 // what operators wrote
)

// unseen are characters that are letters by name and show as nothing.
const unseen = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"

// visible takes the power from a text that events or operators wrote, and shows what
// it took: control characters, marks that change the writing direction or show as
// nothing, bytes that are no text, and a first character that makes a spreadsheet
// compute become escapes. The result holds no memory of s.
func visible(s string, limit int) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size <= 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case i == 0 && strings.ContainsRune("=+-@", r):
			piece = fmt.Sprintf(`\x%02x`, r)
		case r == '\\':
			piece = `\\`
		case r == ' ' || unicode.IsPrint(r) && !strings.ContainsRune(unseen, r) && !unicode.Is(unicode.Variation_Selector, r):
		case r < 0x80:
			piece = fmt.Sprintf(`\x%02x`, r)
		default:
			piece = fmt.Sprintf(`\u{%x}`, r)
		}
		if n += utf8.RuneCountInString(piece); n > limit {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// fileName is a name that is safe in a path and a link, and its own for each id.
func fileName(id string) string {
	if plainName.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "x-" + hex.EncodeToString(sum[:8])
}

// code is a text as a code span of Markdown; it is visible's already.
func code(s string) string {
	if s == "" {
		return "-"
	}
	return "`" + strings.NewReplacer("`", `\x60`, "|", `\x7c`).Replace(s) + "`"
}
