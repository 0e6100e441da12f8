package fctest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

const apiPath = "/2020-11-11/runtime/invocation/"

// runtimeAPI is what one process talks to.
func (in *instance) runtimeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+apiPath+"next", in.next)
	mux.HandleFunc("POST "+apiPath+"{id}/response", func(w http.ResponseWriter, r *http.Request) {
		in.answer(w, r, Returned)
	})
	mux.HandleFunc("POST "+apiPath+"{id}/error", func(w http.ResponseWriter, r *http.Request) {
		in.answer(w, r, Failed)
	})
	return mux
}

// next hands the next invocation over. A write that fails is not noticed: it
// means that the process is ending, which ends the invocation too.
func (in *instance) next(w http.ResponseWriter, r *http.Request) {
	in.once.Do(func() { close(in.asked) })
	for {
		select {
		case <-r.Context().Done():
			return
		case <-in.exited:
			return
		case inv := <-in.queue:
			in.mu.Lock()
			stillOn := in.current == inv
			inv.taken = stillOn
			in.mu.Unlock()
			if !stillOn {
				continue
			}
			for k, v := range inv.header {
				w.Header().Set(k, v)
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.Itoa(len(inv.Payload)))
			_, _ = w.Write(inv.Payload)
			return
		}
	}
}

// answer takes a result or an error. One that comes after its invocation's
// end, or for an invocation that was never delivered here, is refused.
func (in *instance) answer(w http.ResponseWriter, r *http.Request, e Ending) {
	id := r.PathValue("id")
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPayload+1))
	if err != nil {
		return // cut off: the process is ending
	}
	end, tooLarge := outcome{e, body}, len(body) > MaxPayload
	if tooLarge {
		end = responseTooLarge()
	}
	in.mu.Lock()
	inv := in.current
	in.mu.Unlock()
	switch {
	case inv == nil || inv.RequestID != id || !in.end(inv, end):
		http.Error(w, "invocation "+id+" is not in progress", http.StatusGone)
		in.fn.lateAnswer(in)
	case tooLarge:
		_, _ = io.Copy(io.Discard, r.Body) // else net/http closes the connection, and not at once
		http.Error(w, "response too large", http.StatusRequestEntityTooLarge)
	}
}

// header is what the Runtime API tells a function about one invocation.
func (in *instance) header(r Request) map[string]string {
	o := &in.fn.o
	cred := o.Credentials()
	return map[string]string{
		"x-fc-request-id":         r.RequestID,
		"x-fc-function-deadline":  strconv.FormatInt(o.Now().Add(o.Timeout).UnixMilli(), 10),
		"x-fc-function-type":      "0", // handle an event; 1 to 3 are the life-cycle hooks
		"x-fc-function-name":      o.FunctionName,
		"x-fc-function-handler":   filepath.Base(o.Binary),
		"x-fc-function-memory":    strconv.Itoa(o.MemoryMB),
		"x-fc-function-timeout":   strconv.Itoa(o.seconds()),
		"x-fc-access-key-id":      cred.AccessKeyID,
		"x-fc-access-key-secret":  cred.AccessKeySecret,
		"x-fc-security-token":     cred.SecurityToken,
		"x-fc-service-logproject": o.LogProject,
		"x-fc-service-logstore":   o.LogStore,
		"x-fc-region":             o.Region,
		"x-fc-account-id":         o.AccountID,
		"x-fc-qualifier":          o.Qualifier,
		"x-fc-version-id":         o.VersionID,
		"x-fc-retry-count":        strconv.Itoa(r.RetryCount),
	}
}

// environment is all that a process gets; what FC sets wins.
func (in *instance) environment(address string) []string {
	o := &in.fn.o
	var env []string
	for _, key := range []string{"PATH", "HOME", "TMPDIR"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	env = append(env, o.Env...)
	cred := o.Credentials()
	return append(
		env,
		"FC_RUNTIME_API="+address,
		"FC_FUNC_CODE_PATH="+filepath.Dir(o.Binary),
		"FC_FUNCTION_NAME="+o.FunctionName,
		"FC_FUNCTION_HANDLER="+filepath.Base(o.Binary),
		"FC_FUNCTION_MEMORY_SIZE="+strconv.Itoa(o.MemoryMB),
		"FC_REGION="+o.Region,
		"FC_ACCOUNT_ID="+o.AccountID,
		"FC_INSTANCE_ID="+in.id,
		"FC_VER_ID="+o.VersionID,
		"ALIBABA_CLOUD_ACCESS_KEY_ID="+cred.AccessKeyID,
		"ALIBABA_CLOUD_ACCESS_KEY_SECRET="+cred.AccessKeySecret,
		"ALIBABA_CLOUD_SECURITY_TOKEN="+cred.SecurityToken,
	)
}
