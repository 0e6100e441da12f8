// Command hello is the least that could do the work: it makes the calls that a
// business event cannot do without, and nothing else. The function's start is
// measured against it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/fc-runtime-go-sdk/fc"
	"github.com/aliyun/fc-runtime-go-sdk/fccontext"
)

func main() {
	fc.Start(func(ctx context.Context, raw []byte) (any, error) {
		var event struct{ ID string }
		if err := json.Unmarshal(raw, &event); err != nil {
			return nil, err
		}
		if err := work(ctx, "hello-"+event.ID, raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return nil, err
		}
		return map[string]string{"decision": "executed"}, nil
	})
}

func work(ctx context.Context, key string, raw []byte) error {
	lc, _ := fccontext.FromContext(ctx)
	creds := lc.Credentials
	rows := tablestore.NewClientWithConfig(os.Getenv("ONCEGATE_TABLESTORE_ENDPOINT"), os.Getenv("ONCEGATE_TABLESTORE_INSTANCE"),
		creds.AccessKeyId, creds.AccessKeySecret, creds.SecurityToken, nil)
	client, err := oss.New(os.Getenv("ONCEGATE_OSS_ENDPOINT"), creds.AccessKeyId, creds.AccessKeySecret, oss.SecurityToken(creds.SecurityToken))
	if err != nil {
		return err
	}
	bucket, err := client.Bucket(os.Getenv("ONCEGATE_OSS_BUCKET"))
	if err != nil {
		return err
	}
	put := &tablestore.PutRowChange{TableName: "task_records", PrimaryKey: primaryKey(key)}
	for n := range 20 {
		put.AddColumn(fmt.Sprintf("column_%d", n), "a value of some length")
	}
	put.AddColumn("revision", int64(1))
	put.SetCondition(tablestore.RowExistenceExpectation_EXPECT_NOT_EXIST)
	if _, err := rows.PutRow(&tablestore.PutRowRequest{PutRowChange: put}); err != nil {
		return err
	}
	for _, name := range []string{"input.json", "output.json"} {
		if err := bucket.PutObject("hello/"+key+"/"+name, bytes.NewReader(raw), oss.ContentType("application/json")); err != nil {
			return err
		}
	}
	change := &tablestore.UpdateRowChange{TableName: "task_records", PrimaryKey: primaryKey(key)}
	change.PutColumn("status", "SUCCEEDED")
	change.PutColumn("revision", int64(2))
	change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	_, err = rows.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: change})
	return err
}

func primaryKey(key string) *tablestore.PrimaryKey {
	pk := new(tablestore.PrimaryKey)
	pk.AddPrimaryKeyColumn("idempotency_key", key)
	return pk
}
