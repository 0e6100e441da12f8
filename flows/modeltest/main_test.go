package modeltest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/flows/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reach is one way to a server.
type reach struct {
	name string
	open func(*testing.T, modeltest.Options) (*modeltest.Server, *http.Client)
}

func reaches() []reach {
	return []reach{
		{"in process", inProcess},
		{"socket", func(t *testing.T, o modeltest.Options) (*modeltest.Server, *http.Client) {
			s := modeltest.New(o)
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			tr := &http.Transport{}
			t.Cleanup(func() {
				tr.CloseIdleConnections()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s, &http.Client{Transport: tr}
		}},
	}
}

func inProcess(_ *testing.T, o modeltest.Options) (*modeltest.Server, *http.Client) {
	s := modeltest.New(o)
	return s, &http.Client{Transport: s.Transport()}
}

// client is the real client with the server's endpoint.
func client(s *modeltest.Server, h *http.Client, key string) *openai.Client {
	cfg := openai.DefaultConfig(key)
	cfg.BaseURL, cfg.HTTPClient = s.Endpoint(), h
	return openai.NewClientWithConfig(cfg)
}

func ask(ctx context.Context, c *openai.Client, model, content string) (openai.ChatCompletionResponse, error) {
	return c.CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: model, Messages: []openai.ChatCompletionMessage{
		{Role: openai.ChatMessageRoleSystem, Content: "Summarize. [[model status=500]] is not for you."},
		{Role: openai.ChatMessageRoleUser, Content: content},
	}})
}

// post sends a body as it is and returns the answer read; status 0 is no answer.
func post(t *testing.T, h *http.Client, url, body string, header http.Header) (status int, got http.Header, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer k"}, "Content-Type": {"application/json"}}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := h.Do(req)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return 0, nil, ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

func bodyOf(model, content string) string {
	raw, _ := json.Marshal(map[string]any{
		"model": model, "messages": []map[string]string{{"role": "user", "content": content}},
	})
	return string(raw)
}

func sha(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
