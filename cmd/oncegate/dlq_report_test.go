package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/report"
)

func TestAReportWithSomethingUnexplainedEndsWithCode4(t *testing.T) {
	for _, output := range []string{outputTable, outputJSON} {
		var out, errOut bytes.Buffer
		a := &app{out: &out, err: &errOut, output: output}
		if err := a.printReport(&report.Report{OK: true}, "dir"); err != nil {
			t.Error(err)
		}
		err := a.printReport(&report.Report{Letters: report.Letters{Unexplained: 3}}, "dir")
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitNotFound || !strings.Contains(err.Error(), "3 letters are unexplained") {
			t.Errorf("got %v", err)
		}
	}
}
