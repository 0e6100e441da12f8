package idempotency

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// BenchmarkDigest measures the digest of an order of some lines.
func BenchmarkDigest(b *testing.B) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf(`{"line":%d,"sku":"SKU-%06d","title":"something to buy","price":1999,"count":2,"gift":%v}`, i, i, i%2 == 0))
	}
	v, err := strictjson.Check([]byte(`{"order_no":"17","lines":[` + strings.Join(lines, ",") + `],"amount":12.50}`))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(v.Raw())))
	b.ReportAllocs()
	for b.Loop() {
		Digest(v)
	}
}
