package flows

import "testing"

// BenchmarkLoad measures what a process does first: it reads the flows.yaml that
// is built in.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Embedded(nil); err != nil {
			b.Fatal(err)
		}
	}
}
