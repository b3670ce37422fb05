package chatwriter

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// FuzzEscapedJSON compares EscapedJSON with compacting and escaping one after the other.
func FuzzEscapedJSON(f *testing.F) {
	for _, s := range []string{`{ "a" : [ 1.50 , "b c" ] }`, `"\"\\\/\u00e9\n é"`, `[ "\\" , "\\\"" ]`, `{"a":"{ \" }"}`, " null "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var d jsondoc.Doc
		if d.Parse(body, jsondoc.Limits{}) != nil {
			return
		}
		compact, err := jsondoc.AppendCompact(nil, d.Root().Raw())
		if err != nil {
			t.Fatal(err)
		}
		var w Writer
		w.EscapedJSON(d.Root())
		if want := jsondoc.AppendEscaped(nil, compact); string(w.Dst) != string(want) {
			t.Errorf("got %s, want %s", w.Dst, want)
		}
	})
}

// TestRewind removes a message with its parts and calls, and writes another one in its place.
func TestRewind(t *testing.T) {
	var d jsondoc.Doc
	if err := d.Parse([]byte(`["one","two"]`), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	one := d.Root().First()
	two := one.Next()
	write := func(w *Writer, v jsondoc.Value) {
		w.StartMessage(v, "user")
		w.StartCall(v)
		w.Literal("{}")
		w.StartCall(v)
		w.Literal("{}")
		w.EndCalls()
		w.Literal(`,"content":`)
		n := 0
		w.StartPart(&n, v, "{")
		w.Member("text", v)
		w.Literal("}]}")
	}
	var w Writer
	write(&w, one)
	mark := w.Mark()
	write(&w, two)
	w.Rewind(mark)
	w.StartMessage(two, "assistant")
	w.EndCalls()
	w.Literal("}")
	const want = `{"role":"user","tool_calls":[{},{}],"content":[{,"text":"one"}]},{"role":"assistant"}`
	if string(w.Dst) != want {
		t.Errorf("got %s, want %s", w.Dst, want)
	}
	if kind, v, _ := w.Origins.Find("messages[1].tool_calls[0]"); kind != clientapi.OriginMessage || v != two {
		t.Errorf("the calls of a removed message are still recorded: %v", kind)
	}
}

// TestWarningsAreBounded adds more warnings than a header can hold.
func TestWarningsAreBounded(t *testing.T) {
	var w Writer
	for i := range 100 {
		w.Warn(abi.WarnDropped, "member"+string(rune('0'+i)))
	}
	if len(w.Warnings) != maxWarnings {
		t.Errorf("%d warnings, want %d", len(w.Warnings), maxWarnings)
	}
	w.Reset()
	if w.Warn(abi.WarnChanged, `a"é`); len(w.Warnings) != 1 || w.Warnings[0].Member != `a\"\u00e9` {
		t.Errorf("got %v", w.Warnings)
	}
}
