package fctest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serveFunction answers GetFunction: how a version is deployed, its environment
// with everything that is secret in it.
func (f *Front) serveFunction(w http.ResponseWriter, r *http.Request) {
	name, qualifier := r.PathValue("name"), r.URL.Query().Get("qualifier")
	resource := name
	if qualifier != "" {
		resource += "/" + qualifier
	}
	id, _, ok := f.admit(w, r, "GetFunction", resource)
	if !ok {
		return
	}
	fn, err := f.find(name, qualifier)
	if err != nil {
		refuse(w, id, err)
		return
	}
	env := map[string]string{}
	for _, pair := range fn.o.Env {
		key, value, _ := strings.Cut(pair, "=")
		env[key] = value
	}
	f.mu.Lock()
	for key, value := range f.overlay[name] {
		env[key] = value
		if value == "" {
			delete(env, key)
		}
	}
	timeout := fn.o.Timeout
	if t, ok := f.timeouts[name]; ok {
		timeout = t
	}
	f.mu.Unlock()
	writeJSON(w, map[string]any{
		"functionName": name, "runtime": "go1", "handler": "main", "timeout": int64(timeout / time.Second),
		"memorySize": fn.o.MemoryMB, "environmentVariables": env,
	})
}

// Redeploy changes what GetFunction says of a function's configuration, and
// nothing of what runs: variables with an empty value are gone, a time-out of 0
// stays as it is.
func (f *Front) Redeploy(function string, env map[string]string, timeout time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overlay[function] = env
	if timeout > 0 {
		f.timeouts[function] = timeout
	}
}

// Unalias takes an alias of a function away.
func (f *Front) Unalias(function, alias string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.aliases, function+"/"+alias)
}

// serveVersions answers ListFunctionVersions; LATEST is no published version.
func (f *Front) serveVersions(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	id, _, ok := f.admit(w, r, "ListFunctionVersions", name)
	if !ok {
		return
	}
	if _, err := f.find(name, "LATEST"); err != nil && err.(*apiError).code == "FunctionNotFound" {
		refuse(w, id, err)
		return
	}
	f.mu.Lock()
	numbers := []uint64{}
	for key := range f.deploys {
		if of, version, _ := strings.Cut(key, "/"); of == name {
			if n, err := strconv.ParseUint(version, 10, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	f.mu.Unlock()
	slices.Sort(numbers)
	versions := []map[string]string{}
	for _, n := range numbers {
		versions = append(versions, map[string]string{"versionId": strconv.FormatUint(n, 10), "description": ""})
	}
	writeJSON(w, map[string]any{"versions": versions, "direction": "FORWARD"})
}

func writeJSON(w http.ResponseWriter, v any) {
	body, _ := json.Marshal(v)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
