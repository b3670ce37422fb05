//go:build !race

package messages_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
)

// TestRequestAllocatesOnlyModel checks that a reused Request allocates only the copy of the model's name, whether it is
// passed on or lowered.
func TestRequestAllocatesOnlyModel(t *testing.T) {
	body := agentRequest(agentSize)
	r := messages.NewRequest(nil)
	var chat []byte
	read := func() {
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
		if e := r.FitModel(1<<20, true, false); e != nil {
			t.Fatal(e)
		}
		r.Document()
		text, _, e := r.AppendChat(chat[:0])
		if e != nil {
			t.Fatal(e)
		}
		chat = text
		r.Reset()
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
