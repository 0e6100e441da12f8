package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAStateInUseIsSaidInTheReadersLanguage(t *testing.T) {
	dir := t.TempDir()
	holder, err := otstest.New(otstest.Options{Dir: dir, Credentials: &cloudtest.Credentials{}})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	for locale, want := range map[string]string{
		"C":           "If `oncegate local up` or another command is working on " + dir,
		"zh_CN.UTF-8": "如果 `oncegate local up` 或其他命令正在使用 " + dir,
	} {
		var out, errOut bytes.Buffer
		code := run([]string{"review", "list", "--state-dir", dir}, nil, &out, &errOut, func(name string) string {
			return map[string]string{"LANG": locale}[name]
		})
		if code != exitFailed || out.Len() > 0 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %q", locale, code, errOut.String())
		}
	}
}
