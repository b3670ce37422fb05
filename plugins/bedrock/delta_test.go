package bedrock

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// covers: B5
func TestPlainDeltasTakeFastPath(t *testing.T) {
	for event, plain := range map[string]bool{
		textEvent: true, toolEvent: true, thinkingEvent: true, spacedEvent: false,
		`{"contentBlockIndex":0,"delta":{"text":"a\n\"b\ud83d\ude00"}}`:                   true,
		`{"contentBlockIndex":0,"delta":{"text":""},"p":""}`:                              true,
		`{"contentBlockIndex":12345,"delta":{"text":"a"}}`:                                true,
		`{"contentBlockIndex":123456,"delta":{"text":"a"}}`:                               false,
		`{"contentBlockIndex":01,"delta":{"text":"a"}}`:                                   false,
		`{"contentBlockIndex":0,"delta":{"text":"a","x":1}}`:                              false,
		`{"contentBlockIndex":0,"delta":{"text":"a"},"p":"b","x":1}`:                      false,
		`{"contentBlockIndex":0,"delta":{"text":"a"},"p":1}`:                              false,
		`{"contentBlockIndex":0,"delta":{"text":"a"},"p": "b"}`:                           false,
		`{"contentBlockIndex":0,"delta":{"text":"a"}} `:                                   false,
		`{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"a"}}}`:          false,
		`{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"a","signature":1}}}`: false,
	} {
		var r json.Reader
		var d delta
		if got := d.readPlain(&r, []byte(event)); got != plain {
			t.Errorf("%s: takes the fast path: %v, want %v", event, got, plain)
		}
	}
}

// FuzzDelta checks that the fast path gives the same result as the general one.
func FuzzDelta(f *testing.F) {
	for _, lines := range scripts(f) {
		for _, line := range lines {
			if data, ok := strings.CutPrefix(line, "0 contentBlockDelta "); ok {
				f.Add([]byte(data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r json.Reader
		var plain, whole delta
		if !plain.readPlain(&r, data) {
			return
		}
		r.Reset(data)
		whole.read(&r)
		if err := r.End(); err != nil {
			t.Fatalf("%q takes the fast path, but is invalid: %v", data, err)
		}
		if !cmp.Equal(plain, whole, cmp.AllowUnexported(delta{}), cmp.Comparer(bytes.Equal)) {
			t.Fatalf("%q is read as %+v by the fast path and as %+v by the general one", data, plain, whole)
		}
	})
}
