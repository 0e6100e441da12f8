package otstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func BenchmarkPutRow(b *testing.B) {
	for name, durable := range map[string]bool{"memory": false, "file": true} {
		b.Run(name, func(b *testing.B) {
			creds := &cloudtest.Credentials{}
			cred := creds.Issue(time.Time{})
			o := Options{Credentials: creds}
			if durable {
				o.Dir = b.TempDir()
			}
			srv, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			defer srv.Close()
			cfg := tablestore.NewDefaultTableStoreConfig()
			cfg.Transport = srv.Transport()
			client := tablestore.NewClientWithConfig("http://in-process", "oncegate", cred.AccessKeyID, cred.AccessKeySecret, cred.SecurityToken, cfg)
			meta := &tablestore.TableMeta{TableName: "claims"}
			meta.AddPrimaryKeyColumn("k", tablestore.PrimaryKeyType_STRING)
			_, err = client.CreateTable(&tablestore.CreateTableRequest{
				TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &tablestore.ReservedThroughput{},
			})
			if err != nil {
				b.Fatal(err)
			}
			c := cols{}
			for i := range 20 {
				c[fmt.Sprintf("column%d", i)] = "a value of some length"
			}
			n := 0
			for b.Loop() {
				n++
				if _, err := client.PutRow(&tablestore.PutRowRequest{PutRowChange: putChange("claims", fmt.Sprint(n), absent, c)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
