package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func TestLettersOfBothRolesAreSealedInTheBucket(t *testing.T) {
	t.Parallel()
	for _, role := range []string{roleTask, roleIntake} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			key, err := artifacts.NewPrivateKey()
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, options{env: map[string]string{"ONCEGATE_ROLE": role, "ONCEGATE_SEAL_KEY": key.Public().String()}, unwatched: true})
			raw := business{"odd", "Call " + phone}.changed("evt-1", func(event, _ map[string]any) { event["type"] = "demo:task:none" })
			for _, payload := range [][]byte{raw, []byte("call " + phone)} {
				// The world's own checks read letters as they lie there.
				if resp, err := w.fn.Invoke(t.Context(), fctest.Request{Payload: payload}); err != nil || resp.Ending != fctest.Returned {
					t.Fatalf("got %+v %v", resp, err)
				}
			}
			letters := 0
			for _, o := range w.objects.Objects(bucketName) {
				if bytes.Contains(o.Body, []byte(phone)) {
					t.Errorf("%s holds the number in clear", o.Key)
				}
				if strings.HasPrefix(o.Key, "dead-letters/") && o.Metadata["oncegate-seal-key"] == key.Public().ID() {
					letters++
				}
			}
			if letters != 2 || len(w.letters()) != 2 {
				t.Fatalf("%d sealed objects and %d letters of 2 events", letters, len(w.letters()))
			}
			own := w.accepted.Issue(time.Time{})
			defer w.accepted.Revoke(own.AccessKeyID)
			transport := aliyun.NewTransport(1)
			defer transport.CloseIdleConnections()
			bucket, err := aliyun.NewBucket(w.objects.Endpoint(), bucketName, as(own, transport))
			if err != nil {
				t.Fatal(err)
			}
			opened := map[string]bool{}
			for _, row := range w.letters() {
				id, _ := row.PrimaryKey[0].Value.(string)
				text, _ := row.Columns["raw_ref"].(string)
				ref, err := idempotency.ParseRef(text)
				if err != nil {
					t.Fatal(err)
				}
				got, err := artifacts.NewStore(bucket, "").ReadLetter(t.Context(), id, ref, artifacts.PrivateKeys{key})
				if err != nil {
					t.Fatal(err)
				}
				opened[string(got)] = true
			}
			if !opened[string(raw)] || !opened["call "+phone] {
				t.Errorf("the letters open to %v", opened)
			}
			if strings.Contains(w.output.String(), phone) {
				t.Error("the output of the processes holds the number")
			}
		})
	}
}
