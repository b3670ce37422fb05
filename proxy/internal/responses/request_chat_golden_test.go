package responses_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

var update = flag.Bool("update", false, "rewrite golden files")

// recordedRequests returns the recorded requests by name.
func recordedRequests(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) < 80 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	bodies := make(map[string][]byte)
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(file, "error-400-param") { // OpenAI has rejected it, too
			var r responses.Request
			if e := r.Parse(body, clientapi.Limits{}); e == nil || e.Param != "temperature" {
				t.Errorf("%s: %v", file, e)
			}
			continue
		}
		bodies[strings.TrimSuffix(filepath.Base(file), ".json")] = body
	}
	return bodies
}

// TestLowerRecordedRequests compares lowered requests with golden files and checks that package openai accepts them.
// The error for a request that cannot be lowered must allow another target.
func TestLowerRecordedRequests(t *testing.T) {
	for name, body := range recordedRequests(t) {
		t.Run(name, func(t *testing.T) {
			r := parseRequest(t, string(body))
			if e := r.Expand("c"); e != nil {
				t.Fatal(e)
			}
			chat, warnings, e := r.AppendChat(nil)
			var out bytes.Buffer
			if e != nil {
				fmt.Fprintf(&out, "%d %s %s: %s\n", e.Status, e.Code, e.Param, e.Message)
				if !e.TryNext {
					t.Errorf("the error does not allow another target: %v", e)
				}
			} else {
				if err := json.Indent(&out, chat, "", " "); err != nil {
					t.Fatalf("%v: %s", err, chat)
				}
				out.WriteString("\n")
				var q openai.Request
				if e := q.Parse(chat, clientapi.Limits{}); e != nil {
					t.Errorf("rejected: %v\n%s", e, chat)
				} else if q.Rewritten() {
					t.Errorf("not canonical: %s", chat)
				}
			}
			for _, w := range warnings {
				fmt.Fprintf(&out, "%d %s\n", w.Kind, w.Member)
			}
			compareGolden(t, filepath.Join("testdata/lowered", name+".txt"), out.Bytes())
		})
	}
}

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update):\n%s", file, got)
	}
}
