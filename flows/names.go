package flows

import (
	"slices"
	"strings"
	"unicode"
)

// What a key field's name says of its value. Names are all that a rule can go
// by, so a field that is meant as it is says so with `because`.
const (
	clockLike     = "looks like a clock: two deliveries of one business would get two keys"
	randomLike    = "looks like a random number: every delivery would be a new business"
	traceLike     = "looks like a trace or request id: it belongs to one delivery, not to the business"
	eventIDLike   = "looks like an event id: a copy of the event would be a new business"
	sensitiveLike = "looks like personal or secret data: mark it sensitive: true"
)

var suspicious = []struct {
	reason string
	words  []string // whole words of a name, or Chinese words anywhere in it
}{
	{clockLike, []string{"time", "timestamp", "ts", "clock", "now", "datetime", "gmt", "时间", "时间戳"}},
	{randomLike, []string{"random", "rand", "nonce", "salt", "随机"}},
	{traceLike, []string{"trace", "traceid", "traceparent", "tracestate", "span", "spanid", "requestid", "链路", "请求id"}},
	{eventIDLike, []string{"eventid", "事件id"}},
}

var sensitiveWords = []string{
	"email", "mail", "phone", "mobile", "telephone", "tel", "idcard", "passport", "token", "password", "passwd", "secret", "ssn",
	"手机", "电话", "邮箱", "身份证", "护照", "密码", "令牌", "姓名",
}

// nameWords mark values that people choose and change: never the only thing
// that tells two businesses apart.
var nameWords = []string{
	"name", "title", "file", "filename", "date", "day", "month", "year", "label",
	"名称", "标题", "文件", "日期", "姓名",
}

// tenantWords mark whose business it is, not which.
var tenantWords = []string{"tenant", "org", "organization", "company", "account", "shop", "store", "user", "租户", "公司", "店铺", "账号"}

// words splits a name at case changes, before and after digits, and at
// everything that is no letter or digit: userIDCard2 is user, id, card, 2.
func words(name string) []string {
	var all []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			all = append(all, strings.ToLower(string(word)))
		}
		word = nil
	}
	letters := []rune(name)
	for i, r := range letters {
		previous, next := rune(0), rune(0)
		if i > 0 {
			previous = letters[i-1]
		}
		if i+1 < len(letters) {
			next = letters[i+1]
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		if (unicode.IsUpper(r) && (unicode.IsLower(previous) || unicode.IsLower(next))) || unicode.IsDigit(r) != unicode.IsDigit(previous) {
			flush()
		}
		word = append(word, r)
	}
	flush()
	return all
}

// says reports whether a name holds one of the words, in the singular or the
// plural, in one piece or split: idcard is in user_id_card_no.
func says(name string, wanted []string) bool {
	parts := words(name)
	for i := range parts {
		run := ""
		for _, p := range parts[i:] {
			run += p
			if slices.ContainsFunc(wanted, func(w string) bool { return run == w || run == w+"s" }) {
				return true
			}
		}
		if slices.ContainsFunc(wanted, func(w string) bool { return w[0] > unicode.MaxASCII && strings.Contains(parts[i], w) }) {
			return true
		}
	}
	return false
}

// suspicion is what is wrong with a field by its names, "" if nothing.
func suspicion(sensitive bool, names ...string) string {
	for _, name := range names {
		for _, s := range suspicious {
			if says(name, s.words) {
				return s.reason
			}
		}
		parts := words(name)
		switch n := len(parts); {
		case n > 1 && parts[n-1] == "at":
			return clockLike
		case !sensitive && says(name, sensitiveWords):
			return sensitiveLike
		}
	}
	return ""
}

// identifying are the words that end a name of something numbered: a file is
// renamed, a file_id is not.
var identifying = []string{"id", "no", "number", "code", "key", "version", "hash", "sha", "编号", "单号", "号码", "版本", "版本号"}

// ends reports whether a name's last word is one of the words.
func ends(name string, wanted []string) bool {
	parts := words(name)
	for len(parts) > 1 && parts[len(parts)-1][0] <= '9' {
		parts = parts[:len(parts)-1] // digits: sha256
	}
	if len(parts) == 0 {
		return false
	}
	last := parts[len(parts)-1]
	return slices.ContainsFunc(wanted, func(w string) bool {
		return last == w || (last[0] > unicode.MaxASCII && strings.HasSuffix(last, w))
	})
}

// nameLike reports whether a field holds a name, a date or a file name.
func nameLike(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return says(name, nameWords) && !ends(name, identifying) })
}

// tenantLike reports whether a field says whose business it is, not which:
// shop_id does, shop_order_no does not.
func tenantLike(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		parts := words(name)
		if n := len(parts); n > 1 && slices.Contains(identifying, parts[n-1]) {
			name = parts[n-2]
		}
		for _, suffix := range identifying {
			if rest := strings.TrimSuffix(strings.ToLower(name), suffix); rest != "" && name[0] > unicode.MaxASCII {
				name = rest
			}
		}
		return ends(name, tenantWords)
	})
}

// envelopeOnly are the attributes of an event that belong to one delivery:
// never part of a key, whatever the reason.
var envelopeOnly = map[string]string{
	"id": eventIDLike, "time": clockLike, "traceparent": traceLike, "tracestate": traceLike,
	"aliyunpublishtime": clockLike, "aliyunpublishaddr": traceLike, "aliyuneventid": eventIDLike,
}
