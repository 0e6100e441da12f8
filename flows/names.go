package flows

import (
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
	{clockLike, []string{"time", "timestamp", "ts", "clock", "now", "datetime", "时间", "时间戳"}},
	{randomLike, []string{"random", "rand", "nonce", "salt", "随机"}},
	{traceLike, []string{"trace", "traceid", "traceparent", "tracestate", "span", "requestid", "链路"}},
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

// words splits a name at case changes and at everything that is no letter or digit.
func words(name string) []string {
	var all []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			all = append(all, strings.ToLower(string(word)))
		}
		word = nil
	}
	previous := rune(0)
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && unicode.IsLower(previous):
			flush()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		previous = r
	}
	flush()
	return all
}

// says reports whether a name holds one of the words.
func says(name string, wanted []string) bool {
	parts := words(name)
	joined := strings.Join(parts, "")
	for _, w := range wanted {
		if w == joined {
			return true
		}
		for _, p := range parts {
			if p == w || (w[0] > unicode.MaxASCII && strings.Contains(p, w)) {
				return true
			}
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
		case n > 1 && parts[n-1] == "id" && (parts[n-2] == "event" || parts[n-2] == "request" || parts[n-2] == "span"):
			if parts[n-2] == "event" {
				return eventIDLike
			}
			return traceLike
		case n > 1 && parts[n-1] == "card" && parts[n-2] == "id" && !sensitive:
			return sensitiveLike
		case !sensitive && says(name, sensitiveWords):
			return sensitiveLike
		}
	}
	return ""
}

// nameLike reports whether a field holds a name, a date or a file name.
func nameLike(names ...string) bool {
	for _, name := range names {
		if says(name, nameWords) {
			return true
		}
	}
	return false
}

// tenantLike reports whether a field says whose business it is, not which.
func tenantLike(names ...string) bool {
	for _, name := range names {
		if says(name, tenantWords) {
			return true
		}
	}
	return false
}

// envelopeOnly are the attributes of an event that belong to one delivery:
// never part of a key, whatever the reason.
var envelopeOnly = map[string]string{
	"id": eventIDLike, "time": clockLike, "traceparent": traceLike, "tracestate": traceLike,
	"aliyunpublishtime": clockLike, "aliyunpublishaddr": traceLike, "aliyuneventid": eventIDLike,
}
