//go:build !race

package openai_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// TestParseAllocatesOnlyModel checks that parsing a request allocates only the copy of the model's name.
func TestParseAllocatesOnlyModel(t *testing.T) {
	for name, body := range map[string][]byte{
		"1 KB":         conversationOf(1 << 10),
		"100 KB":       conversationOf(100 << 10),
		"every member": []byte(everyMember),
		"escaped":      []byte(`{"m\u006fdel":"name","messages":[{"r\u006fle":"\u0075ser","content":"\n"}]}`),
	} {
		var r openai.Request
		parse := func() {
			if e := r.Parse(body, openai.Limits{}); e != nil {
				t.Fatal(e)
			}
			if e := r.CheckModel(1<<20, true); e != nil {
				t.Fatal(e)
			}
			r.Reset()
		}
		parse()
		if n := testing.AllocsPerRun(100, parse); n > 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
