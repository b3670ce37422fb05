package native_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

var update = flag.Bool("update", false, "rewrite the expected files under testdata")

// recording is a recorded response.
type recording struct {
	name   string   // path without extension
	status int      // status of an error response, otherwise 200
	events []string // data of a stream's events
	body   []byte   // body of a non-streaming response
}

// recordings reads the recorded responses under testdata.
func recordings(t testing.TB) (all []recording) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		base, _, _ := strings.Cut(filepath.Base(p), ".")
		rec := recording{name: filepath.Join(filepath.Dir(p), base), status: 200}
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(p, ".sse"):
			for line := range strings.Lines(string(data)) {
				if rest, ok := strings.CutPrefix(line, "data:"); ok {
					rec.events = append(rec.events, strings.TrimSpace(rest))
				}
			}
		case strings.HasSuffix(p, ".chunks.txt"):
			for line := range strings.Lines(string(data)) {
				rec.events = append(rec.events, strings.TrimSpace(line))
			}
		case strings.HasSuffix(p, ".resp.json"):
			rec.body = data
			if kind, status, ok := strings.Cut(base, "-"); ok && kind == "error" {
				if n, err := strconv.Atoi(strings.SplitN(status, "-", 2)[0]); err == nil {
					rec.status = n
				} else {
					rec.status = 400
				}
			}
		default:
			continue
		}
		all = append(all, rec)
	}
	if len(all) < 40 {
		t.Fatalf("only %d recordings", len(all))
	}
	return all
}

func options(stream, usage bool) response.Options {
	return response.Options{
		Stream: stream, IncludeUsage: usage, ID: "chatcmpl-gateway", Model: "asked", Created: 1700000000, PromptEstimate: 7,
	}
}

// replay reads a recording into a writer.
func replay(t testing.TB, w *response.Writer, rec *recording, o response.Options) {
	t.Helper()
	var r native.Reader
	var b response.Batch
	r.Reset(native.Options{})
	w.Reset(o)
	apply := func(err error) {
		if err == nil {
			err = w.Apply(&b)
		}
		var e *apierror.Error
		if errors.As(err, &e) {
			w.Fail(e)
		} else if err != nil {
			t.Fatalf("%s: %v", rec.name, err)
		}
	}
	if rec.body != nil {
		apply(r.ReadResponse(rec.body, &b))
		return
	}
	for _, ev := range rec.events {
		b.Reset()
		apply(r.ReadChunk([]byte(ev), &b))
		if w.Complete() || w.Failed() != nil {
			return
		}
	}
	_ = w.End()
}

// golden compares got with a golden file, or updates the file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// pretty indents a JSON document and keeps the order of members and the spelling of numbers.
func pretty(t *testing.T, p []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, p, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, p)
	}
	return append(out.Bytes(), '\n')
}

// TestRecordedResponses reads every recording twice, for a streaming and a non-streaming client.
func TestRecordedResponses(t *testing.T) {
	for _, rec := range recordings(t) {
		t.Run(rec.name, func(t *testing.T) {
			if rec.status != 200 {
				e := native.Failure(rec.status, rec.body)
				out := fmt.Appendf(nil, "%d\n%s", e.Status, pretty(t, clientapi.AppendErrorBody(nil, e)))
				golden(t, rec.name+".error.json", out)
				return
			}
			w := openai.NewWriter()
			replay(t, w, &rec, options(true, true))
			golden(t, rec.name+".stream.txt", w.Output())
			checkStream(t, w, true)

			replay(t, w, &rec, options(false, false))
			if e := w.Failed(); e != nil {
				golden(t, rec.name+".whole.json", pretty(t, clientapi.AppendErrorBody(nil, e)))
				return
			}
			if !w.Complete() {
				t.Fatal("neither complete nor failed")
			}
			golden(t, rec.name+".whole.json", pretty(t, w.AppendResponse(nil)))
		})
	}
}

// checkStream checks the invariants of every stream.
func checkStream(t testing.TB, w *response.Writer, usage bool) {
	t.Helper()
	out := string(w.Output())
	frames := strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n")
	if !strings.HasSuffix(out, "\n\n") {
		t.Fatalf("the stream ends with %q", out[max(0, len(out)-20):])
	}
	done, failed := 0, 0
	for i, f := range frames {
		data, ok := strings.CutPrefix(f, "data: ")
		if !ok || strings.ContainsAny(data, "\r\n") {
			t.Fatalf("frame %d is %q", i, f)
		}
		if data == "[DONE]" {
			done++
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("frame %d: %v: %s", i, err, data)
		}
		if _, ok := chunk["error"]; ok {
			failed++
		} else if _, ok := chunk["usage"]; ok != usage {
			t.Errorf("S4/S5: frame %d: %s", i, data)
		}
	}
	if done+failed != 1 {
		t.Errorf("%d [DONE] and %d errors", done, failed)
	}
	if last := frames[len(frames)-1]; w.Complete() != (last == "data: [DONE]") || (w.Failed() != nil) != strings.HasPrefix(last, `data: {"error":`) {
		t.Errorf("complete %v, failed %v, and the last frame is %s", w.Complete(), w.Failed(), last)
	}
}
