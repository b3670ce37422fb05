package responses_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// customInput returns the input of a custom tool call whose arguments arrive in these pieces. It must be the same in a
// stream and in a non-streaming response.
func customInput(t testing.TB, pieces ...string) string {
	t.Helper()
	h := newHarness(t, testOptions, `"tools":[{"type":"custom","name":"exec"}],"store":false`)
	steps := []step{call(0, "c", "exec")}
	for _, p := range pieces {
		steps = append(steps, args(0, p))
	}
	steps = append(steps, endCall(0), finish(abi.FinishToolCalls))
	streamed := readStream(t, h.play(true, steps))
	whole := readWhole(t, h.play(false, steps))
	a, b := streamed.Output[0].AsCustomToolCall(), whole.Output[0].AsCustomToolCall()
	if a.Type != "custom_tool_call" || a.Input != b.Input || a.Name != "exec" {
		t.Fatalf("streamed %s, whole %s", a.RawJSON(), b.RawJSON())
	}
	return a.Input
}

// covers: P7.9
func TestCustomToolInput(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{`{"input":"a"}`, "a"},
		{` { "input" : "a" } `, "a"},
		{`{"input":""}`, ""},
		{`{}`, ""},
		{``, ""},
		{`{"input":"a\n\t\"b\"\\\/é\u00e9😀\ud83d\ude00"}`, "a\n\t\"b\"\\/éé😀😀"},
		{`{"input":"*** Begin Patch\n*** End"}`, "*** Begin Patch\n*** End"},
		// Invalid JSON of models.
		{"{\"input\":\"a\nb\"}", "a\nb"},
		{`{"input":"a\qb"}`, `a\qb`},
		{`{"input":"a\u12zb"}`, `a\u12zb`},
		{`{"input":"\ud83d"}`, "\uFFFD"},
		{`{"input":"\ud83dx"}`, "\uFFFDx"},
		{`{"input":"\ud83d\u0041"}`, "\uFFFDA"},
		{`{"input":"\ud83d\n"}`, "\uFFFD\n"},
		{`{"input":"\ud83d\ud83d\ude00"}`, "\uFFFD😀"},
		{`{"input":"\ude00x"}`, "\uFFFDx"},
		{`{"input":"cut`, "cut"},
		{`{"input":"a"},"b"`, "a"},
		// Arguments in another format.
		{`ls -l`, "ls -l"},
		{`{"code":"ls"}`, `{"code":"ls"}`},
		{`{"input":7}`, `{"input":7}`},
		{`["a"]`, `["a"]`},
		{`"a"`, `"a"`},
	} {
		if got := customInput(t, c.args); got != c.want {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
}

// TestCustomToolInputDoesNotDependOnCuts checks that any input is preserved, wherever its JSON is cut.
func TestCustomToolInputDoesNotDependOnCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("the SDK is slow: it reads a hundred responses")
	}
	rapid.Check(t, func(rt *rapid.T) {
		want := strings.ToValidUTF8(rapid.String().Draw(rt, "input"), "\uFFFD")
		doc, err := json.Marshal(map[string]string{"input": want})
		if err != nil {
			rt.Fatal(err)
		}
		var pieces []string
		for rest := string(doc); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "cut")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := customInput(t, pieces...); got != want {
			rt.Fatalf("%s: got %q, want %q", doc, got, want)
		}
	})
}
