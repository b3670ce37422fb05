package messages_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recordedRequests returns the requests of testdata/requests, by name.
func recordedRequests(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d requests, %v", len(files), err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = body
	}
	return all
}

// parse parses a recorded request. The prefix count-tokens in its name marks a request to count tokens.
func parse(r *messages.Request, name string, body []byte) error {
	read := r.Parse
	if strings.HasPrefix(name, "count-tokens") {
		read = r.ParseCount
	}
	if e := read(body, clientapi.Limits{}); e != nil {
		return e
	}
	return nil
}

// TestRecordedRequests reads requests of real clients. A provider of the same API receives their bytes. The lowered
// chat completions request with its warnings, or the error, is compared with testdata/chat.
//
// covers: M3.1
func TestRecordedRequests(t *testing.T) {
	r := messages.NewRequest(nil)
	for name, body := range recordedRequests(t) {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(body)
			if err := parse(r, name, body); err != nil {
				t.Fatal(err)
			}
			if _, document := r.Document(); !bytes.Equal(document, before) {
				t.Errorf("the document is\n%s", document)
			}
			compareGolden(t, filepath.Join("testdata", "chat", name+".txt"), goldenChat(t, r))
		})
	}
}

// goldenChat returns the chat completions request of r in the format of golden files: indented, followed by the
// warnings.
func goldenChat(t *testing.T, r *messages.Request) []byte {
	t.Helper()
	chat, warnings, e := r.AppendChat(nil)
	if e != nil {
		if !e.TryNext {
			t.Errorf("rejected for every target: %v", e)
		}
		return append(messages.AppendError(nil, e, "req_1"), '\n')
	}
	var request openai.Request
	if e := request.Parse(bytes.Clone(chat), clientapi.Limits{}); e != nil {
		t.Fatalf("%v: %s", e, chat)
	}
	if !bytes.Equal(request.Body, chat) {
		t.Errorf("not canonical: %s", chat)
	}
	text := jsontext.Value(bytes.Clone(chat))
	if err := text.Indent(jsontext.WithIndent(" ")); err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	for _, w := range warnings {
		text = append(append(text, [...]string{"dropped ", "clamped ", "changed "}[w.Kind]+w.Member...), '\n')
	}
	return text
}

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
	}
}
