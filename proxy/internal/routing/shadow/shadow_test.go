package shadow_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// recorded returns the recording of a response with tool calls, each given as "name arguments". The arguments arrive in
// two pieces.
func recorded(calls ...string) *shadow.Response {
	var r shadow.Recorder
	w := response.NewWriter(new(shadow.DiscardRenderer))
	w.Reset(response.Options{Tap: &r})
	var b response.Batch
	for i, c := range calls {
		name, arguments, _ := strings.Cut(c, " ")
		b.ToolCall(0, int32(i), []byte("id"), []byte(name))
		b.ToolArguments(0, int32(i), abi.EncodingUTF8, []byte(arguments[:len(arguments)/2]))
		b.Usage(abi.UsagePrompt, 5)
		b.ToolArguments(0, int32(i), abi.EncodingUTF8, []byte(arguments[len(arguments)/2:]))
	}
	b.Finish(0, abi.FinishToolCalls, nil)
	b.Done(abi.DoneNow)
	if err := w.Apply(&b); err != nil {
		panic(err)
	}
	out := &shadow.Response{Status: 200, Complete: w.Complete(), Prompt: 5, Completion: 2}
	r.Describe(out)
	return out
}

func TestCompare(t *testing.T) {
	vary := func(change func(*shadow.Response)) *shadow.Response {
		r := recorded("f {}")
		change(r)
		return r
	}
	for _, c := range []struct {
		name string
		a, b *shadow.Response
		want string
	}{
		{"equal", recorded("f {}"), recorded("f {}"), ""},
		{"different status", recorded(), vary(func(r *shadow.Response) { r.Status, r.Complete = 500, false }), "status"},
		{"aborted", recorded("f {}"), vary(func(r *shadow.Response) { r.Complete, r.Prompt = false, 9 }), "status"},
		{"both failed", vary(func(r *shadow.Response) { r.Complete = false }), vary(func(r *shadow.Response) { r.Complete, r.Prompt = false, 9 }), ""},
		{"finish reason", recorded("f {}"), vary(func(r *shadow.Response) { r.Finishes = []abi.FinishReason{abi.FinishStop} }), "finish_reason"},
		{"different number of choices", recorded("f {}"), vary(func(r *shadow.Response) { r.Finishes = append(r.Finishes, abi.FinishStop) }), "finish_reason"},
		{"tokens", recorded("f {}"), vary(func(r *shadow.Response) { r.Prompt, r.Completion = 6, 3 }), "prompt_tokens,completion_tokens"},
		{"fewer calls", recorded("f {}", "g {}"), recorded("f {}"), "tool_calls"},
		{"different tool", recorded("f {}", "g {}"), recorded("f {}", "h {}"), "tool_names"},
		{"different order of calls", recorded("f {}", "g {}"), recorded("g {}", "f {}"), "tool_names"},
		{"order of members", recorded(`f {"a":1,"b":{"c":[1,2]}}`), recorded(`f { "b" : { "c" : [ 1, 2 ] }, "a" : 1 }`), ""},
		{"order of elements", recorded(`f [1,2]`), recorded(`f [2,1]`), "tool_arguments"},
		{"additional member", recorded(`f {"a":null}`), recorded(`f {}`), "tool_arguments"},
		{"different member", recorded(`f {"a":null}`), recorded(`f {"b":null}`), "tool_arguments"},
		{"escapes", recorded(`f {"a":"\u00e9\n"}`), recorded(`f {"a":"é\u000a"}`), ""},
		{"numbers", recorded(`f [1.0,100,1e2]`), recorded(`f [1,1E2,100.0]`), ""},
		{"large integers", recorded(`f 9007199254740993`), recorded(`f 9007199254740992`), "tool_arguments"},
		{"a number and a string", recorded(`f 1`), recorded(`f "1"`), "tool_arguments"},
		{"valid and invalid JSON", recorded(`f {"a":1}`), recorded(`f {"a":1`), "tool_arguments"},
		{"identical invalid JSON", recorded(`f {"a":`), recorded(`f {"a":`), ""},
		{"trailing document", recorded(`f {} {}`), recorded(`f {}`), "tool_arguments"},
	} {
		for _, swapped := range []bool{false, true} {
			if swapped {
				c.a, c.b = c.b, c.a
			}
			if got := shadow.Compare(c.a, c.b).String(); got != c.want {
				t.Errorf("%s (swapped %v): %q, want %q", c.name, swapped, got, c.want)
			}
		}
	}
}

// value generates JSON values.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.String().Draw(t, "string")
		case 1:
			return float64(rapid.IntRange(-1000, 1000).Draw(t, "number")) / 4
		case 2:
			return rapid.Bool().Draw(t, "bool")
		case 3:
			return nil
		case 4:
			return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "array")
		}
		return rapid.MapOfN(rapid.StringN(0, 3, 6), value(depth-1), 0, 4).Draw(t, "object")
	})
}

// spell encodes a JSON value with a random order of members, white space, escapes and formats of numbers.
func spell(v any, r *rand.Rand) string {
	space := strings.Repeat(" ", r.IntN(2))
	switch v := v.(type) {
	case map[string]any:
		var members []string
		for name, m := range v {
			members = append(members, spell(name, r)+space+":"+spell(m, r))
		}
		slices.Sort(members)
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + space + strings.Join(members, ",") + "}"
	case []any:
		var elements []string
		for _, e := range v {
			elements = append(elements, spell(e, r))
		}
		return "[" + strings.Join(elements, ","+space) + space + "]"
	case string:
		var b strings.Builder
		b.WriteByte('"')
		for _, c := range v {
			if c < 0x10000 && (r.IntN(2) == 0 || c < ' ' || c == '"' || c == '\\') {
				fmt.Fprintf(&b, "\\u%04x", c)
			} else {
				b.WriteRune(c)
			}
		}
		return b.String() + `"`
	case float64:
		return fmt.Sprintf([]string{"%g", "%.4f", "%.6e"}[r.IntN(3)], v)
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// TestSpellingDoesNotMatter checks that two encodings of a JSON value are equal, and that an additional element is a
// difference.
func TestSpellingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := spell(v, rand.New(rand.NewPCG(seed, 1))), spell(v, rand.New(rand.NewPCG(seed, 2)))
		if d := shadow.Compare(recorded("f ["+a+"]"), recorded("f ["+b+"]")); d != 0 {
			t.Errorf("%s and %s differ: %s", a, b, d)
		}
		if d := shadow.Compare(recorded("f ["+a+"]"), recorded("f ["+b+",0]")); !d.Has(shadow.ToolArguments) {
			t.Errorf("[%s] and [%s,0] do not differ", a, b)
		}
	})
}

// FuzzArguments checks that comparing arbitrary arguments is reflexive and symmetric.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.50,"x"]}`), []byte(`{"a":[1.0,2.5,"\u0078"]}`))
	f.Add([]byte(`1e999999999`), []byte(`1e999999998`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte(`{"a":2}`))
	f.Add([]byte(strings.Repeat("[", 20000)), []byte("\xff"))
	of := func(p []byte) *shadow.Response {
		return &shadow.Response{Status: 200, Complete: true, Calls: []shadow.Call{{Name: []byte("f"), Arguments: jsondoc.AppendEscaped(nil, p)}}}
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if d := shadow.Compare(of(a), of(a)); d != 0 {
			t.Errorf("%q differs from itself: %s", a, d)
		}
		if shadow.Compare(of(a), of(b)) != shadow.Compare(of(b), of(a)) {
			t.Errorf("whether %q and %q differ depends on the order", a, b)
		}
	})
}

// TestRecorderIsBounded checks that tool calls that are too large to record are not compared.
func TestRecorderIsBounded(t *testing.T) {
	long := fmt.Sprintf(`f {"a":%q}`, strings.Repeat("x", 300<<10))
	a, b := recorded(long), recorded("g {}")
	if !a.Truncated || b.Truncated {
		t.Errorf("truncated: %v and %v, want true and false", a.Truncated, b.Truncated)
	}
	if d := shadow.Compare(a, b); d != 0 {
		t.Errorf("differences %s, want none", d)
	}
}

// TestResponseOfCopyIsBounded checks that a streamed response to a copy holds no memory, and fails when it is too
// large.
func TestResponseOfCopyIsBounded(t *testing.T) {
	w := response.NewWriter(new(shadow.DiscardRenderer))
	w.Reset(response.Options{Stream: true, Tap: new(shadow.Recorder)})
	piece := []byte(strings.Repeat("x", 1<<20))
	var b response.Batch
	n := 0
	for ; n < 64; n++ {
		b.Reset()
		b.Text(0, abi.EncodingUTF8, piece)
		if err := w.Apply(&b); err != nil {
			break
		}
		if len(w.Output()) > 0 || w.Held() > 0 {
			t.Fatalf("%d bytes held", w.Held()+len(w.Output()))
		}
	}
	if n != response.DefaultMaxHeld>>20 {
		t.Errorf("failed after %d MiB, want %d", n, response.DefaultMaxHeld>>20)
	}
}

func TestFigures(t *testing.T) {
	var f shadow.Figures
	a, b := recorded("f {}"), recorded("g {}")
	a.Duration, b.Duration, a.FirstEvent, b.FirstEvent = time.Second, 3*time.Second, 200*time.Millisecond, 100*time.Millisecond
	if d := f.Compare(a, b); d.String() != "tool_names" {
		t.Errorf("differences %s", d)
	}
	aborted := recorded("f {}")
	aborted.Complete = false
	f.Compare(a, aborted)
	f.End(shadow.Answered, 5)
	f.End(shadow.Dropped, 0)
	n := f.Counts()
	firstEvent, duration := n.Ratios()
	if n.Compared != 2 || n.Differences[shadow.ToolNames] != 1 || n.Differences[shadow.Status] != 1 || n.Total() != 2 || n.Cost != 5 || n.Client.Prompt != 5 || firstEvent != 0.5 || duration != 3 {
		t.Errorf("%+v, ratios %v and %v", n, firstEvent, duration)
	}
}
