package response_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestBatchCopiesArguments(t *testing.T) {
	var b response.Batch
	p := []byte("text")
	b.Text(3, abi.EncodingEscaped, p)
	b.Start(p, p[:1], nil)
	copy(p, "XXXX")
	if got := string(b.Bytes(b.Events[0].A)); got != "text" {
		t.Errorf("text %q, want a copy", got)
	}
	if id, model := string(b.Bytes(b.Events[1].A)), string(b.Bytes(b.Events[1].B)); id != "text" || model != "t" {
		t.Errorf("id %q, model %q", id, model)
	}
	if b.Size() != 9 {
		t.Errorf("size %d, want 9", b.Size())
	}
	// Appending to a span's bytes must not overwrite the next span.
	_ = append(b.Bytes(b.Events[0].A), '!')
	if got := string(b.Bytes(b.Events[1].A)); got != "text" {
		t.Errorf("next span is %q after append", got)
	}
}

func TestBatchReset(t *testing.T) {
	var b response.Batch
	b.Text(0, 0, make([]byte, 1<<20))
	b.Fail(response.Truncated())
	b.Reset()
	if len(b.Events) != 0 || b.Size() != 0 || b.Failure() != nil {
		t.Errorf("%d events, %d bytes, failure %v", len(b.Events), b.Size(), b.Failure())
	}
	b.Finish(1, abi.FinishLength, []byte("n"))
	if got := string(b.Bytes(b.Events[0].A)); got != "n" || b.Events[0].Choice != 1 || b.Events[0].Code != uint8(abi.FinishLength) {
		t.Errorf("event %+v, native reason %q", b.Events[0], got)
	}
}
