package otstest

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

func TestAuthentication(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		list := func(c *tablestore.TableStoreClient) error {
			_, err := c.ListTable()
			return err
		}
		// tampered changes a signed request on its way.
		tampered := func(change func(*http.Request)) error {
			return list(s.dialAs(s.cred, roundTrip(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				change(r)
				return s.transport.RoundTrip(r)
			}), 0))
		}
		const auth = "OTSAuthFailed"

		t.Run("a signed call passes", func(t *testing.T) {
			if err := list(s.client); err != nil {
				t.Fatal(err)
			}
		})
		t.Run("a long-lived key without a token passes", func(t *testing.T) {
			c := cloudKey("plain", "secret")
			s.creds.Add(c)
			if err := list(s.dialAs(c, s.transport, 0)); err != nil {
				t.Fatal(err)
			}
			c.SecurityToken = "made up"
			expect(t, list(s.dialAs(c, s.transport, 0)), 403, auth, "The security token is invalid.")
		})
		t.Run("a call signed with v4 passes", func(t *testing.T) {
			if err := list(s.dialV4(s.cred.AccessKeySecret)); err != nil {
				t.Fatal(err)
			}
		})
		t.Run("a wrong secret is refused, v2 and v4", func(t *testing.T) {
			c := s.cred
			c.AccessKeySecret += "x"
			expect(t, list(s.dialAs(c, s.transport, 0)), 403, auth, "Signature mismatch.")
			expect(t, list(s.dialV4(c.AccessKeySecret)), 403, auth, "Signature mismatch.")
		})
		t.Run("a header changed after signing is refused", func(t *testing.T) {
			expect(t, tampered(func(r *http.Request) { r.Header.Set("x-ots-sdk-traceid", "other") }), 403, auth, "Signature mismatch.")
		})
		t.Run("a call moved to another action is refused", func(t *testing.T) {
			expect(t, tampered(func(r *http.Request) { r.URL.Path = "/DeleteTable" }), 403, auth, "Signature mismatch.")
		})
		t.Run("a missing header is named", func(t *testing.T) {
			for _, name := range []string{headerDate, headerAPIVersion, headerKeyID, headerInstance, headerMD5, headerSignature} {
				expect(t, tampered(func(r *http.Request) { r.Header.Del(name) }), 400, "OTSParameterInvalid", "Missing header: `"+name+"`.")
			}
		})
		t.Run("an unknown key is refused", func(t *testing.T) {
			c := s.cred
			c.AccessKeyID = "STS.other"
			expect(t, list(s.dialAs(c, s.transport, 0)), 403, auth, "The AccessKeyID does not exist.")
		})
		t.Run("a token that does not go with the key is refused", func(t *testing.T) {
			c := s.cred
			for _, token := range []string{"", "token-other"} {
				c.SecurityToken = token
				expect(t, list(s.dialAs(c, s.transport, 0)), 403, auth, "The security token is invalid.")
			}
		})
		t.Run("a token is refused from the moment it expires", func(t *testing.T) {
			c := s.creds.Issue(s.clock.now().Add(time.Minute))
			client := s.dialAs(c, s.transport, 0)
			if err := list(client); err != nil {
				t.Fatal(err)
			}
			s.clock.advance(time.Minute)
			expect(t, list(client), 403, auth, "The security token has expired.")
		})
		t.Run("a revoked key is refused", func(t *testing.T) {
			c := s.creds.Issue(time.Time{})
			s.creds.Revoke(c.AccessKeyID)
			expect(t, list(s.dialAs(c, s.transport, 0)), 403, auth, "The AccessKeyID does not exist.")
		})
		t.Run("a body that does not fit its MD5 is refused", func(t *testing.T) {
			expect(t, tampered(func(r *http.Request) {
				r.Body = io.NopCloser(bytes.NewReader([]byte{8, 1}))
				r.ContentLength = 2
			}), 403, auth, "Mismatch between MD5 value of request body and x-ots-contentmd5 in header.")
		})
		t.Run("another instance is refused", func(t *testing.T) {
			cfg := tablestore.NewDefaultTableStoreConfig()
			cfg.Transport = s.transport
			c := tablestore.NewClientWithConfig(s.endpoint, "elsewhere", s.cred.AccessKeyID, s.cred.AccessKeySecret, s.cred.SecurityToken, cfg)
			expect(t, list(c), 403, auth, "The instance is not found.")
		})
		t.Run("a clock more than a quarter of an hour off is refused, both ways", func(t *testing.T) {
			defer func(at time.Time) { s.clock.advance(at.Sub(s.clock.now())) }(s.clock.now())
			for _, off := range []time.Duration{-16 * time.Minute, 16 * time.Minute} {
				s.clock.advance(time.Until(s.clock.now()) * -1)
				s.clock.advance(off)
				if err := list(s.client); code(err) != auth {
					t.Errorf("%v off: %v", off, err)
				}
			}
			s.clock.advance(time.Until(s.clock.now()) * -1)
			s.clock.advance(14 * time.Minute)
			if err := list(s.client); err != nil {
				t.Error(err)
			}
		})
		t.Run("only POST is served", func(t *testing.T) {
			expect(t, tampered(func(r *http.Request) { r.Method = http.MethodPut }), 405, "OTSMethodNotAllowed", "Only POST method for requests is supported.")
		})
		t.Run("a query string is refused", func(t *testing.T) {
			if err := tampered(func(r *http.Request) { r.URL.RawQuery = "a=b" }); code(err) != "OTSParameterInvalid" {
				t.Fatal(err)
			}
		})
		t.Run("an action that does not exist is refused", func(t *testing.T) {
			expect(t, s.send("DropEverything", &otsprotocol.ListTableRequest{}), 400, "OTSParameterInvalid", "Unsupported operation: `DropEverything`.")
		})
		t.Run("an action that is left out here says so", func(t *testing.T) {
			_, err := s.client.StartLocalTransaction(&tablestore.StartLocalTransactionRequest{TableName: "claims", PrimaryKey: pk("x")})
			expect(t, err, 400, "OTSUnsupportOperation", "The operation is not supported: `StartLocalTransaction`.")
		})
		t.Run("a body that is no message is refused", func(t *testing.T) {
			expect(t, s.sendRaw("DescribeTable", []byte{0xff}), 400, "OTSParameterInvalid", "Parse PBMessage from RawString failed.")
		})
		t.Run("a field that is not known is refused", func(t *testing.T) {
			body, _ := proto.Marshal(&otsprotocol.DescribeTableRequest{TableName: proto.String("claims")})
			expect(t, s.sendRaw("DescribeTable", append(body, 0x50, 1)), 400, "OTSParameterInvalid", "Unknown field in the request.")
		})
	})
}

func (s *stand) dialV4(secret string) *tablestore.TableStoreClient {
	cfg := tablestore.NewDefaultTableStoreConfig()
	cfg.Transport, cfg.RetryTimes = s.transport, 0
	v4 := common.CreateByCredentials(&common.DefaultCredentials{
		AccessKeyID: s.cred.AccessKeyID, AccessKeySecret: secret, SecurityToken: s.cred.SecurityToken,
	}, "cn-hangzhou")
	return tablestore.NewClientWithCredentialsProvider(s.endpoint, "oncegate", v4, cfg)
}

func TestSigningKey(t *testing.T) {
	// The vector is the one of the SDK's own test.
	if got := string(signingKey("credentials_test_secret", "20240808", "cn-hangzhou")); got != "RNN1/s8/m45SdD+EzXlvpyGxc4Enu0RiODs1Lg+xFpo=" {
		t.Fatal(got)
	}
}

func TestDates(t *testing.T) {
	want := time.Date(2026, 11, 30, 19, 31, 33, 0, time.UTC)
	for _, s := range []string{"2026-11-30T19:31:33.11307Z", "2026-11-30T19:31:33.886Z", "2026-11-30T19:31:33Z"} {
		if got, err := parseDate(s); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "yesterday", "2026-11-30 19:31:33Z", "2026-11-30T19:31:33+08:00", "2026-13-30T19:31:33Z"} {
		if _, err := parseDate(s); err == nil {
			t.Errorf("%s is taken for a date", s)
		}
	}
}
