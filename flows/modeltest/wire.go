package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// chat is what the stand-in reads of a request; the rest is accepted unread.
type chat struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`

	content string // the user messages' text, joined by newlines
}

// digest is empty where no content was read.
func (c chat) digest() string {
	if c.content == "" {
		return ""
	}
	return digest(c.content)
}

func parseChat(body []byte) (chat, error) {
	var c chat
	if err := json.Unmarshal(body, &c); err != nil {
		return chat{}, errors.New("the body is no chat completion request")
	}
	var texts []string
	for i, m := range c.Messages {
		text, err := textOf(m.Content)
		if err != nil {
			return c, fmt.Errorf("messages[%d]: %w", i, err)
		}
		switch m.Role {
		case "user":
			texts = append(texts, text)
		case "system", "developer", "assistant", "tool":
		default:
			return c, fmt.Errorf("messages[%d]: unknown role", i)
		}
	}
	c.content = strings.Join(texts, "\n")
	switch {
	case c.Model == "":
		return c, errors.New("you must provide a model parameter")
	case len(c.Messages) == 0:
		return c, errors.New("messages must not be empty")
	case c.content == "":
		return c, errors.New("no user message with text")
	case c.Stream:
		return c, errors.New("this stand-in does not stream")
	}
	return c, nil
}

// textOf reads a message's content: a string, or parts of which the texts count.
func textOf(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", errors.New("content is neither a string nor a list of parts")
	}
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}

type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// Summary returns the normal answer to a user content: its first 60 characters
// without directives, white space folded, and 8 hex digits of the whole
// content's SHA-256. The same content always has the same answer.
func Summary(content string) string {
	_, text, err := parseDirectives(content)
	if err != nil {
		text = content
	}
	return summarize(content, text)
}

func summarize(content, text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 60 {
		runes = runes[:60]
	}
	return fmt.Sprintf("Summary: %s (%s)", string(runes), digest(content)[:8])
}

func complete(in chat, text string, d directive, number int, now time.Time) completion {
	answer, finish := summarize(in.content, text), "stop"
	if d.finish != "" {
		finish = d.finish
	}
	switch finish {
	case "content_filter":
		answer = ""
	case "length":
		runes := []rune(answer)
		answer = string(runes[:len(runes)/2])
	}
	c := completion{
		ID: fmt.Sprintf("chatcmpl-%06d-%s", number, digest(in.content)[:8]), Object: "chat.completion",
		Created: now.Unix(), Model: in.Model, Choices: []choice{},
		Usage: usage{PromptTokens: tokens(in.content), CompletionTokens: tokens(answer)},
	}
	c.Usage.TotalTokens = c.Usage.PromptTokens + c.Usage.CompletionTokens
	if d.act != actNoChoices {
		c.Choices = append(c.Choices, choice{Message: message{"assistant", answer}, FinishReason: finish})
	}
	return c
}

func tokens(s string) int { return (utf8.RuneCountInString(s) + 3) / 4 }

type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

// writeError answers in the provider's error format; an empty code means the
// usual one of the status.
func writeError(w http.ResponseWriter, status int, code, text, requestID string) {
	if code == "" {
		code = codeOf(status)
	}
	writeErrorAs(w, status, code, text, requestID)
}

func writeErrorAs(w http.ResponseWriter, status int, code, text, requestID string) {
	if code == "" {
		code = "internal_error"
	}
	kind := code // Model Studio repeats its own codes as the type
	switch code {
	case "invalid_api_key", "model_not_found", "invalid_parameter_error", "invalid_directive":
		kind = "invalid_request_error"
	}
	writeJSON(w, status, struct {
		Error     wireError `json:"error"`
		RequestID string    `json:"request_id"`
	}{wireError{Message: text, Type: kind, Code: code}, requestID})
}

func codeOf(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_parameter_error"
	case http.StatusUnauthorized:
		return "invalid_api_key"
	case http.StatusForbidden:
		return "access_denied"
	case http.StatusNotFound:
		return "model_not_found"
	case http.StatusTooManyRequests:
		return "limit_requests"
	case http.StatusServiceUnavailable:
		return "service_unavailable"
	}
	return "internal_error"
}
