package ebtest

import (
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var attributeName = regexp.MustCompile(`^[a-z0-9]+$`)

// fromBinary writes the event that a call in binary mode stands for as a
// structured one: its headers' attributes in alphabetical order, all strings,
// then its data. checkEvent judges the result like any other.
func fromBinary(h http.Header, body []byte) ([]byte, error) {
	raw := []byte("{")
	attribute := func(name, value string) error {
		var err error
		if raw, err = jsontext.AppendQuote(raw, name); err == nil {
			raw, err = jsontext.AppendQuote(append(raw, ':'), value)
		}
		if err != nil {
			return unreadable("the attribute " + name + " is not valid UTF-8")
		}
		raw = append(raw, ',')
		return nil
	}
	headers := make([]string, 0, len(h))
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "ce-") {
			headers = append(headers, name)
		}
	}
	slices.Sort(headers)
	for _, header := range headers {
		name := strings.ToLower(header)[len("ce-"):]
		switch {
		case !attributeName.MatchString(name) || name == "data" || name == "datacontenttype":
			return nil, unreadable("the header ce-" + name + " is not one of an attribute")
		case len(h[header]) > 1:
			return nil, unreadable("the header ce-" + name + " is given twice")
		}
		value := h[header][0]
		// A value is percent-encoded; Go's client of CloudEvents does not do so,
		// and means a percent sign that begins no escape.
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
		if err := attribute(name, value); err != nil {
			return nil, err
		}
	}
	contentType := h.Get("Content-Type")
	if contentType != "" {
		if err := attribute("datacontenttype", contentType); err != nil {
			return nil, err
		}
	}
	if len(body) > 0 {
		data, err := dataMember(contentType, body)
		if err != nil {
			return nil, err
		}
		return append(append(raw, data...), '}'), nil
	}
	return append(raw[:len(raw)-1], '}'), nil
}

// dataMember is the data's name and value.
func dataMember(contentType string, body []byte) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		if !isJSON(body, true) {
			return nil, unreadable("the data is not one JSON value")
		}
		return append([]byte(`"data":`), body...), nil
	case strings.HasPrefix(kind, "text/") && utf8.Valid(body):
		return jsontext.AppendQuote([]byte(`"data":`), body)
	}
	return []byte(`"data_base64":"` + base64.StdEncoding.EncodeToString(body) + `"`), nil
}
