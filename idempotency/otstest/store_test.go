package otstest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// childDir makes the test binary serve as the process that gets killed.
const childDir = "OTSTEST_CHILD_DIR"

// fixed is the credential that both processes know.
func fixed() cloudtest.Credential {
	return cloudtest.Credential{AccessKeyID: "id", AccessKeySecret: "secret", SecurityToken: "token"}
}

// runChild serves a directory until it is killed.
func runChild(dir string) {
	creds := &cloudtest.Credentials{}
	creds.Add(fixed())
	s, err := New(Options{Dir: dir, Credentials: creds})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.Endpoint())
	select {}
}

func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	dir := t.TempDir()
	acked := map[string]string{} // key: attempt
	var mu sync.Mutex
	for round := range 3 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = child.Process.Kill() })
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "http://") {
			t.Fatal(line, err)
		}
		s := &stand{t: t, endpoint: strings.TrimSpace(line), cred: fixed()}
		if round == 0 {
			s.client = s.dialAs(s.cred, nil, 0)
			s.table("claims", 1)
		}
		var wg sync.WaitGroup
		const enough = 150
		count, killed := 0, false
		for worker := range 4 {
			wg.Go(func() {
				client := s.dialAs(s.cred, nil, 0)
				for i := 0; ; i++ {
					key, attempt := fmt.Sprintf("key-%d-%d", worker, i%60), fmt.Sprintf("%d-%d", round, i)
					_, err := client.PutRow(&tablestore.PutRowRequest{PutRowChange: putChange("claims", key, ignore, cols{"attempt": attempt})})
					mu.Lock()
					if err != nil {
						// The write that the kill cut off may be there or not.
						acked[key] += " " + attempt
						mu.Unlock()
						return
					}
					acked[key] = attempt
					if count++; count == enough && !killed {
						killed = true
						_ = child.Process.Kill()
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		_ = child.Process.Kill()
		_ = child.Wait()
		if !killed {
			t.Fatalf("the workers ended after %d writes", count)
		}

		s = newStand(t, Options{Dir: dir}, false)
		got := map[string]string{}
		for _, r := range s.Rows("claims") {
			got[r.PrimaryKey[0].Value.(string)] = r.Columns["attempt"].(string)
		}
		for key, want := range acked {
			if strings.HasPrefix(want, " ") && got[key] == "" {
				delete(acked, key) // its first write was the one that was cut off
				continue
			}
			if !strings.Contains(" "+want+" ", " "+got[key]+" ") {
				t.Errorf("round %d: %s holds %q, acknowledged was %q", round, key, got[key], want)
			}
			acked[key] = got[key]
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectory(t *testing.T) {
	t.Run("tables, options, rows, versions and clocks are there again", func(t *testing.T) {
		dir := t.TempDir()
		s := newStand(t, Options{Dir: dir}, false)
		if err := s.create("history", 3, 90000, "k", "n"); err != nil {
			t.Fatal(err)
		}
		s.table("claims", 5)
		s.table("gone", 1)
		if _, err := s.client.DeleteTable(&tablestore.DeleteTableRequest{TableName: "gone"}); err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"1", "2", "3"} {
			u := updateChange("claims", "row", ignore)
			u.PutColumn("a", v)
			u.PutColumn("b", []byte(v))
			s.must(u)
		}
		s.put("claims", "deleted", cols{"a": "1"})
		s.must(deleteChange("claims", "deleted", exist))
		want, last := s.Rows("claims"), s.versions("claims", "row", "a", 9)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		again := newStand(t, Options{Dir: dir, Now: s.clock.now}, false)
		if d := cmp.Diff(want, again.Rows("claims")); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(last, again.versions("claims", "row", "a", 9)); d != "" {
			t.Error(d)
		}
		again.put("claims", "row", cols{"a": "4"})
		if at := again.Rows("claims")[0].Timestamps["a"]; at != want[0].Timestamps["a"]+1 {
			t.Errorf("time stamp %d does not follow %d", at, want[0].Timestamps["a"])
		}
		d, err := again.client.DescribeTable(&tablestore.DescribeTableRequest{TableName: "history"})
		if err != nil || d.TableOption.TimeToAlive != 90000 || d.TableOption.MaxVersion != 3 || len(d.TableMeta.SchemaEntry) != 2 {
			t.Error(d, err)
		}
		names, err := again.client.ListTable()
		if err != nil || !cmp.Equal(names.TableNames, []string{"claims", "history"}) {
			t.Error(names, err)
		}
	})
	t.Run("a second holder is told who is in the way", func(t *testing.T) {
		dir := t.TempDir()
		newStand(t, Options{Dir: dir}, false)
		_, err := New(Options{Dir: dir, Credentials: &cloudtest.Credentials{}})
		if err == nil || !strings.Contains(err.Error(), "another process holds it") {
			t.Fatal(err)
		}
	})
	t.Run("a closed server answers with an internal error and keeps its rows", func(t *testing.T) {
		s := newStand(t, Options{Dir: t.TempDir()}, false)
		s.table("claims", 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.do(putChange("claims", "k", ignore, cols{"a": "1"})); code(err) != "OTSInternalServerError" {
			t.Fatal(err)
		}
		if n := len(s.Rows("claims")); n != 0 {
			t.Fatal(n)
		}
	})
	t.Run("credentials are required", func(t *testing.T) {
		if _, err := New(Options{}); err == nil {
			t.Fatal("no error")
		}
	})
}
