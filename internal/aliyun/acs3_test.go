package aliyun

import (
	"net/http"
	"strings"
	"testing"
)

// The example with fixed parameters of the vendor's page about signature V3.
func TestSignatureV3IsTheOneOfThePublishedExample(t *testing.T) {
	req, err := http.NewRequest("POST", "https://ecs.cn-shanghai.aliyuncs.com/?RegionId=cn-shanghai&ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"x-acs-action": "RunInstances", "x-acs-version": "2014-05-26", "x-acs-date": "2023-10-26T10:22:32Z",
		"x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
	} {
		req.Header.Set(name, value)
	}
	signACS3(req, nil, Credentials{AccessKeyID: "YourAccessKeyId", AccessKeySecret: "YourAccessKeySecret"})
	want := "ACS3-HMAC-SHA256 Credential=YourAccessKeyId," +
		"SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version," +
		"Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
	if got := req.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSignatureV3EscapesAllButUnreservedCharacters(t *testing.T) {
	req, err := http.NewRequest("POST", "https://h/?v=a+b*c~d%2Fe&q=%E4%B8%AD", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := acs3Query(req.URL.Query()), "q=%E4%B8%AD&v=a%20b%2Ac~d%2Fe"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSignatureV3CoversTokenAndContentTypeAndShowsNoSecret(t *testing.T) {
	req, err := http.NewRequest("POST", "https://h/p", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	signACS3(req, []byte("body"), Credentials{"id", "s3cret", "t0ken"})
	got := req.Header.Get("Authorization")
	if !strings.Contains(got, "SignedHeaders=content-type;host;x-acs-content-sha256;x-acs-security-token,") || strings.Contains(got, "s3cret") {
		t.Errorf("got %s", got)
	}
}
