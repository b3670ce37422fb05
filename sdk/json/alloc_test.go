//go:build !race

package json_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

func TestReadingAndWritingDoNotAllocate(t *testing.T) {
	data := []byte(event)
	var r json.Reader
	var w json.Writer
	n := testing.AllocsPerRun(100, func() {
		text, index := readEvent(&r, data)
		w.Reset()
		w.Object()
		w.Name("index")
		w.Int(index)
		w.Name("text")
		w.Inside(text)
		w.EndObject()
	})
	if n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	if want := `{"index":0,"text":"Hello, how are you"}`; string(w.Buf) != want {
		t.Errorf("wrote %s, want %s", w.Buf, want)
	}
}
