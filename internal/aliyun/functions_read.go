package aliyun

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// FunctionConfig is how a function is deployed.
type FunctionConfig struct {
	Name    string
	Timeout time.Duration
	Role    string            // ARN
	Env     map[string]string // holds secrets: never print it
}

// Config reads how a function is deployed at a version or an alias, "" for
// LATEST. One that is not there is an *Error of KindNotFound.
func (f *Functions) Config(ctx context.Context, function, qualifier string) (FunctionConfig, error) {
	path := "/2023-03-30/functions/" + url.PathEscape(function)
	resource := function
	if qualifier != "" {
		path += "?qualifier=" + url.QueryEscape(qualifier)
		resource += "/" + qualifier
	}
	var wire struct {
		FunctionName         string
		Timeout              int64 // seconds
		Role                 string
		EnvironmentVariables map[string]string
	}
	if err := f.read(ctx, "GetFunction", resource, path, &wire); err != nil {
		return FunctionConfig{}, err
	}
	return FunctionConfig{wire.FunctionName, time.Duration(wire.Timeout) * time.Second, wire.Role, wire.EnvironmentVariables}, nil
}

// Versions are the published versions of a function.
func (f *Functions) Versions(ctx context.Context, function string) ([]string, error) {
	var all []string
	err := pages(func(token string) (string, error) {
		query := url.Values{"limit": {"100"}}
		if token != "" {
			query.Set("nextToken", token)
		}
		var wire struct {
			NextToken string
			Versions  []struct{ VersionID string }
		}
		err := f.read(ctx, "ListFunctionVersions", function, "/2023-03-30/functions/"+url.PathEscape(function)+"/versions?"+query.Encode(), &wire)
		for _, v := range wire.Versions {
			all = append(all, v.VersionID)
		}
		return wire.NextToken, err
	})
	return all, err
}

func (f *Functions) read(ctx context.Context, op, resource, path string, out any) error {
	ans, err := f.api.send(ctx, http.MethodGet, op, resource, path, "", nil, callTimeout)
	if err != nil {
		return err
	}
	if json.Unmarshal(ans.body, out) != nil {
		// What stands in the answer may be a secret: it is not repeated.
		return &Error{Service: "fc", Op: op, Resource: resource, Kind: KindUnknown, Status: http.StatusOK, err: errors.New("the answer cannot be read")}
	}
	return nil
}
