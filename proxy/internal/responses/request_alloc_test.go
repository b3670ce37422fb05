//go:build !race

package responses_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// TestRequestAllocatesOnlyModel checks that parsing and lowering with a reused Request allocates only the copy of the
// model's name.
func TestRequestAllocatesOnlyModel(t *testing.T) {
	for name, body := range map[string][]byte{"40 KB": agentRequest(40 << 10), "110 KB": agentRequest(110 << 10)} {
		r := responses.NewRequest(sealer, nil)
		var dst []byte
		serve := func() {
			if e := r.Parse(body, clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if e := r.FitModel(1<<20, true, false); e != nil {
				t.Fatal(e)
			}
			chat, _, e := r.AppendChat(dst[:0])
			if e != nil {
				t.Fatal(e)
			}
			dst = chat
			r.Reset()
		}
		serve()
		if n := testing.AllocsPerRun(50, serve); n > 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
