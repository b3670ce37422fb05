package anthropic

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// FuzzPlainDelta checks that the fast path gives the same result as the general one.
func FuzzPlainDelta(f *testing.F) {
	for _, seed := range []string{textEvent, toolEvent, thinkingEvent, spacedEvent} {
		seed := []byte(seed)
		f.Add(seed)
		f.Add(bytes.Replace(seed, []byte(`0`), []byte(`10`), 1))
		f.Add(bytes.Replace(seed, []byte(`0`), []byte(`01`), 1))
		f.Add(bytes.Replace(seed, []byte(`"}`), []byte(`","text":"x"}`), 1))
		f.Add(bytes.Replace(seed, []byte(`"}`), []byte(`\"}`), 1))
		f.Add(append(slices.Clone(seed), '}'))
		f.Add(seed[:len(seed)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, index, inside := readPlain(data)
		if kind == otherDelta {
			return
		}
		var (
			r  json.Reader
			ev event
		)
		r.Reset(data)
		ev.read(&r)
		if err := r.End(); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		general := map[deltaKind]struct {
			name   string
			inside []byte
		}{
			textDelta: {"text_delta", ev.text}, inputDelta: {"input_json_delta", ev.partialJSON}, thinkingDelta: {"thinking_delta", ev.thinking},
		}[kind]
		if string(ev.kind) != "content_block_delta" || string(ev.deltaType) != general.name || ev.index != int64(index) || !bytes.Equal(general.inside, inside) {
			t.Errorf("%q is read as kind %d, index %d, text %q by the fast path and as %+v by the general one", data, kind, index, inside, ev)
		}
	})
}

// TestRecordedDeltasTakeFastPath checks that events as the API writes them take the fast path, because the general one
// is too slow for every event.
func TestRecordedDeltasTakeFastPath(t *testing.T) {
	for _, v := range suite.Vectors(t) {
		if !strings.HasPrefix(v.Name, "recorded/stream") {
			continue
		}
		for line := range bytes.Lines(v.Response) {
			data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data: "))
			if !ok {
				continue
			}
			want := bytes.Contains(data, []byte(`"type":"text_delta"`)) || bytes.Contains(data, []byte(`"type":"input_json_delta"`)) ||
				bytes.Contains(data, []byte(`"type":"thinking_delta"`))
			if kind, _, _ := readPlain(data); (kind != otherDelta) != want {
				t.Errorf("%s: fast path taken %t, want %t, for %q", v.Name, !want, want, data)
			}
		}
	}
}
