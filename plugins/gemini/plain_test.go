package gemini

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// TestRecordedEventsTakeFastPath checks that all events of a recorded stream take the fast path, except the last one,
// which has more members.
func TestRecordedEventsTakeFastPath(t *testing.T) {
	body, err := os.ReadFile("testdata/vectors/G14-G18-recorded-gemini3-stream-thinking/answer.sse")
	if err != nil {
		t.Fatal(err)
	}
	var r json.Reader
	thoughts, texts, others := 0, 0, 0
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		switch ev, ok := readPlain(&r, []byte(data)); {
		case !ok:
			others++
		case ev.thought:
			thoughts++
		default:
			texts++
		}
	}
	if thoughts != 3 || texts != 25 || others != 1 {
		t.Errorf("%d thoughts and %d texts took the fast path and %d events did not, want 3, 25 and 1", thoughts, texts, others)
	}
}

func TestUnusualEventsTakeSlowPath(t *testing.T) {
	plain := streamEvents.Measured["text"].Data
	var r json.Reader
	if _, ok := readPlain(&r, []byte(plain)); !ok {
		t.Fatal("the unchanged event did not take the fast path")
	}
	for name, change := range map[string][2]string{
		"another layout":        {`{"candidates": `, `{"candidates":`},
		"a broken string":       {`logical`, "\x01"},
		"a string without end":  {`would"}]`, `would}]`},
		"another candidate":     {`"index": 0`, `"index": 1`},
		"a finish reason":       {`"index": 0`, `"finishReason": "STOP","index": 0`},
		"a leading zero":        {`"promptTokenCount": 44`, `"promptTokenCount": 044`},
		"not a number":          {`"promptTokenCount": 44`, `"promptTokenCount": null`},
		"a fraction":            {`"candidatesTokenCount": 44`, `"candidatesTokenCount": 44.5`},
		"a very long number":    {`"candidatesTokenCount": 44`, `"candidatesTokenCount": 4444444444444`},
		"another modality":      {`"TEXT"`, `"IMAGE"`},
		"two modalities":        {`44}]`, `40},{"modality": "AUDIO","tokenCount": 4}]`},
		"a negative number":     {`"thoughtsTokenCount": 902`, `"thoughtsTokenCount": -1`},
		"another tier":          {`"standard"`, `"flex"`},
		"an invalid model":      {`gemini-3`, `gemini 3`},
		"a very long model":     {`gemini-3`, strings.Repeat("x", 300)},
		"a very long ID":        {`eb-`, strings.Repeat("x", 300)},
		"trailing white space":  {`ya-As"}`, `ya-As"} `},
		"an unknown member":     {`ya-As"}`, `ya-As","more": 1}`},
		"cut in the middle":     {plain[len(plain)/2:], ""},
		"cut in the first part": {plain[20:], ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(plain, change[0], change[1], 1)
			if changed == plain {
				t.Fatal("the replacement changed nothing")
			}
			if ev, ok := readPlain(&r, []byte(changed)); ok {
				t.Errorf("the fast path reads %s as %+v", changed, ev)
			}
		})
	}
}
