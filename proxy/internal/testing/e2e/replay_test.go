package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// recording is a recorded response of a provider, with the responses that a client must get for it.
type recording struct {
	name        string
	status      int
	contentType string
	headers     string // additional header lines, each with CRLF
	body        string

	stream, whole string // expected streaming and non-streaming responses; "" if an error is expected
	failure       string // status line and body of the expected error, without members that the gateway adds
}

// compatibleRecordings returns the recordings and golden files of package openai/native.
func compatibleRecordings(t *testing.T) (all []recording) {
	t.Helper()
	paths, err := filepath.Glob("../../openai/native/testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, p := range paths {
		base, ending, _ := strings.Cut(filepath.Base(p), ".")
		r := recording{name: filepath.Base(filepath.Dir(p)) + "/" + base, status: 200, contentType: "text/event-stream", body: read(p)}
		switch {
		case strings.HasSuffix(ending, "sse"):
		case ending == "chunks.txt":
			var b strings.Builder
			for line := range strings.Lines(r.body) {
				b.WriteString("data: " + strings.TrimSpace(line) + "\n\n")
			}
			r.body = b.String()
		case ending == "resp.json":
			r.contentType = "application/json"
		default:
			continue
		}
		expected := strings.TrimSuffix(p, "."+ending)
		r.stream, r.whole, r.failure = read(expected+".stream.txt"), read(expected+".whole.json"), read(expected+".error.json")
		if r.failure != "" {
			r.status = 400
			if n, err := strconv.Atoi(strings.Split(strings.TrimPrefix(base, "error-"), "-")[0]); err == nil {
				r.status = n
			}
		}
		all = append(all, r)
	}
	if len(all) < 40 {
		t.Fatalf("got %d recordings, want at least 40", len(all))
	}
	return all
}

// answer sends the recording as an HTTP response, with a Content-Length or in chunks of random sizes, in segments that
// are split at the offsets that cut returns.
func (r *recording) answer(chunked bool, rnd *rand.Rand, cut func(n int) []int) upstreamtest.Step {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d X\r\nContent-Type: %s\r\n%s", r.status, r.contentType, r.headers)
	if !chunked {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(r.body), r.body)
	} else {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := r.body; rest != ""; {
			n := min(len(rest), 1+rnd.IntN(600))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	}
	return upstreamtest.Cut(b.String(), cut(b.Len())...)
}

var (
	created     = regexp.MustCompile(`"created": ?\d+`)
	extended    = regexp.MustCompile(`,"(provider|upstream_status|upstream_request_id)":("[^"]*"|\d+)`)
	priced      = regexp.MustCompile(`,"cost":([0-9.]+|\{[^}]*\})`) // see TestCostOfRecordedResponses
	generatedID = regexp.MustCompile(`chatcmpl-(gateway|test|[0-9a-f]{32})|call_[a-z2-7]{24}`)
)

// normalizedResponse returns a response without the parts that differ between runs, or between the gateway and the
// golden files.
func normalizedResponse(s string) string {
	s = strings.ReplaceAll(s, ": keep-alive\n", "") // sent if the machine is slow
	s = created.ReplaceAllString(s, `"created":0`)
	s = extended.ReplaceAllString(s, "")
	s = priced.ReplaceAllString(s, "")
	s = generatedID.ReplaceAllString(s, "GENERATED")
	return strings.ReplaceAll(s, `"model":"gpt-upstream"`, `"model":"asked"`)
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return b.String()
}

// TestRecordedResponsesInPieces replays every recorded response of a compatible provider through the whole gateway,
// with real sockets and the compiled plugin, to streaming and non-streaming clients. The response arrives at once, byte
// by byte, or split at random offsets. The client must get the bytes of the golden files each time.
//
// covers: S9
func TestRecordedResponsesInPieces(t *testing.T) {
	const seed = 20261121
	rnd := rand.New(rand.NewPCG(seed, 1))
	all := compatibleRecordings(t)
	cuts := map[string]func(n int) []int{
		"at once": func(int) []int { return nil },
		"in bytes": func(n int) (cut []int) {
			for i := 1; i < min(n, 3000); i++ {
				cut = append(cut, i)
			}
			return cut
		},
		"at random": func(n int) (cut []int) {
			for range 12 {
				cut = append(cut, 1+rnd.IntN(n-1))
			}
			slices.Sort(cut)
			return cut
		},
	}
	if testing.Short() { // the decoders' own tests split at every offset
		delete(cuts, "in bytes")
		delete(cuts, "at once")
	}
	var scripts []upstreamtest.Script
	type testCase struct {
		rec      *recording
		cut      string
		streamed bool
	}
	var cases []testCase
	for i := range all {
		for cut, offsets := range cuts {
			for _, streamed := range []bool{false, true} {
				cases = append(cases, testCase{&all[i], cut, streamed})
				scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), all[i].answer(cut != "at once", rnd, offsets)})
			}
		}
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s/%s/streamed %v", c.rec.name, c.cut, c.streamed), func(t *testing.T) {
			body := `{"model":"gpt","messages":[{"role":"user","content":"How is the weather just now?"}]`
			if c.streamed {
				body += `,"stream":true,"stream_options":{"include_usage":true}`
			}
			got := g.Chat(t, body+"}")
			if got.Err != nil {
				t.Fatalf("reading the body: %v", got.Err)
			}
			checkRecording(t, c.rec, c.streamed, got)
		})
	}
}

// checkRecording checks the response to a client against the golden files of a recording.
func checkRecording(t *testing.T, rec *recording, streamed bool, got *proxytest.Reply) {
	t.Helper()
	want, status := rec.whole, 200
	switch {
	case rec.failure != "":
		line, body, _ := strings.Cut(rec.failure, "\n")
		want = body
		if n, err := strconv.Atoi(line); err == nil {
			status = n
		}
	case streamed && strings.HasPrefix(rec.stream, `data: {"error":`):
		// The golden stream has only an error, so the client gets it as an error response.
		want = strings.TrimSuffix(strings.TrimPrefix(rec.stream, "data: "), "\n\n")
		status = got.Status
	case streamed:
		if got.Status != 200 || normalizedResponse(got.Body) != normalizedResponse(rec.stream) {
			t.Errorf("got %d\n%s\nwant\n%s", got.Status, normalizedResponse(got.Body), normalizedResponse(rec.stream))
		}
		return
	case strings.HasPrefix(want, `{
  "error":`):
		status = got.Status
		if status < 400 {
			t.Errorf("got an error with status %d", status)
		}
	}
	if got.Status != status || normalizedResponse(compact(t, got.Body)) != normalizedResponse(compact(t, want)) {
		t.Errorf("got %d\n%s\nwant %d\n%s", got.Status, normalizedResponse(compact(t, got.Body)), status, normalizedResponse(compact(t, want)))
	}
}
