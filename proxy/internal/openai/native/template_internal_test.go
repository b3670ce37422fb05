package native

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// checkTemplate reads lines, one per chunk, with and without templates, which must have the same result. It returns the
// number of chunks that matched a template.
func checkTemplate(t *testing.T, lines [][]byte, o Options) (matched int) {
	t.Helper()
	var quick, slow Reader // slow has no templates
	var a, b response.Batch
	quick.Reset(o)
	slow.Reset(o)
	for n, line := range lines {
		a.Reset()
		b.Reset()
		slow.template.reset()
		if len(quick.template.chunk) > 0 && quick.template.match(bytes.TrimSpace(line)) != nil {
			matched++
		}
		errA, errB := quick.ReadChunk(line, &a), slow.ReadChunk(line, &b)
		if fmt.Sprint(errA) != fmt.Sprint(errB) || fmt.Sprint(a.Failure()) != fmt.Sprint(b.Failure()) {
			t.Fatalf("chunk %d: %v, %v; parsed: %v, %v\n%s", n, errA, a.Failure(), errB, b.Failure(), line)
		}
		if diff := cmp.Diff(formatEvents(&b), formatEvents(&a)); diff != "" {
			t.Fatalf("chunk %d, parsed (-), by template (+):\n%s\n%s", n, diff, line)
		}
		if quick.chunks != slow.chunks || quick.identified != slow.identified || quick.formatted != slow.formatted {
			t.Fatalf("chunk %d: the readers' states differ: %s", n, line)
		}
	}
	return matched
}

// formatEvents returns a batch's events with their texts.
func formatEvents(b *response.Batch) (all []string) {
	for _, e := range b.Events {
		all = append(all, fmt.Sprint(e.Kind, e.Code, e.Encoding, e.Choice, e.Key, e.Value, string(b.Bytes(e.A)), "|", string(b.Bytes(e.B)), "|", string(b.Bytes(e.C))))
	}
	return all
}

const chunkFormat = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1782321902,"model":"gpt","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"%s"}`

func TestChunkTemplateSkipsParsing(t *testing.T) {
	var lines [][]byte
	for _, text := range []string{"", " a", "b", `\"`, "\u00e9", `\u00e9\ud83d\ude00`, " a much longer piece of text than the first one was", "", "c", "d"} {
		lines = append(lines, fmt.Appendf(nil, chunkFormat, text, "xyz"[:len(text)%4]))
	}
	// The first two chunks and the one after an empty text have no template.
	if n := checkTemplate(t, lines, Options{}); n != 6 {
		t.Errorf("%d chunks were read by template", n)
	}
	if n := checkTemplate(t, lines, Options{ThinkTags: true}); n != 0 {
		t.Errorf("%d chunks were read by template, but with think tags none may be", n)
	}
}

// TestTemplateMismatch reads chunks that differ from the previous one in more than their text, or whose text is
// invalid.
func TestTemplateMismatch(t *testing.T) {
	first := strings.Replace(fmt.Sprintf(chunkFormat, "one", "pad"), "usage", "use", 1)
	for name, c := range map[string]string{
		"finish reason":            strings.Replace(first, `"finish_reason":null`, `"finish_reason":"stop"`, 1),
		"index":                    strings.Replace(first, `"index":0`, `"index":1`, 1),
		"additional member":        strings.Replace(first, `"one"`, `"one","refusal":"no"`, 1),
		"empty text":               strings.Replace(first, `"one"`, `""`, 1),
		"null":                     strings.Replace(first, `"one"`, `null`, 1),
		"control character":        strings.Replace(first, `"one"`, "\"o\x01e\"", 1),
		"lone surrogate":           strings.Replace(first, `"one"`, `"\ud83d"`, 1),
		"invalid UTF-8":            strings.Replace(first, `"one"`, "\"\xff\"", 1),
		"invalid escape":           strings.Replace(first, `"one"`, `"\x"`, 1),
		"truncated in the text":    first[:strings.Index(first, "one")+2],
		"truncated after the text": first[:strings.Index(first, "one")+4],
		"truncated in the padding": first[:strings.Index(first, "pad")+2],
		"trailing data":            first + "{}",
		"done":                     "[DONE]",
		"empty":                    "",
	} {
		t.Run(name, func(t *testing.T) {
			lines := [][]byte{[]byte(first), []byte(first), []byte(first), []byte(c), []byte(first)}
			if n := checkTemplate(t, lines, Options{}); n < 1 || n > 2 {
				t.Errorf("%d chunks were read by template", n)
			}
		})
	}
}

// TestTemplateEqualsParsing changes single bytes of recorded streams, which mostly yields chunks that match the
// template except for one byte.
func TestTemplateEqualsParsing(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	for _, path := range paths {
		if !strings.HasSuffix(path, "sse") && !strings.HasSuffix(path, "chunks.txt") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var chunks [][]byte
		for line := range bytes.Lines(data) {
			line, event := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
			if len(line) > 0 && (event || strings.HasSuffix(path, "chunks.txt")) {
				chunks = append(chunks, line)
			}
		}
		chunks = chunks[:min(len(chunks), 40)]
		matched += checkTemplate(t, chunks, Options{})
		rnd := rand.New(rand.NewPCG(1, uint64(len(data))))
		for range 10 {
			changed := make([][]byte, 0, 2*len(chunks))
			for _, c := range chunks {
				c, at := bytes.Clone(c), rnd.IntN(len(c))
				switch rnd.IntN(8) {
				case 0:
					c[at] = byte(rnd.IntN(256))
				case 1:
					c = append(c[:at], c[at+1:]...)
				case 2:
					c = append(c[:at:at], append([]byte{`"\,:{}[]0an`[rnd.IntN(11)]}, c[at:]...)...)
				}
				changed = append(changed, c)
			}
			checkTemplate(t, changed, Options{})
		}
	}
	if matched < 25 {
		t.Errorf("only %d recorded chunks matched the template", matched)
	}
}

func FuzzChunkTemplate(f *testing.F) {
	chunk := fmt.Sprintf(chunkFormat, "one", "pad")
	f.Add([]byte(chunk+"\n"+fmt.Sprintf(chunkFormat, "two", "")), "one", "more")
	f.Add([]byte(`{"choices":[{"delta":{"content":[{"type":"text","text":"one"}]}}]}`), "one", `\n`)
	f.Add([]byte(`{"choices":[{"delta":{"content":"one","reasoning":"one"}}]}`), "one", `\u12`)
	f.Fuzz(func(t *testing.T, data []byte, old, new string) {
		if len(data) > 1<<14 || len(old) == 0 {
			return
		}
		var lines [][]byte
		for line := range bytes.Lines(data) {
			lines = append(lines, line, line, line, bytes.Replace(line, []byte(old), []byte(new), 1))
		}
		checkTemplate(t, lines, Options{ReasoningFormat: "f"})
	})
}
