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

// recording is an answer that a provider gave, and what a client must get for it.
type recording struct {
	name        string
	status      int
	contentType string
	headers     string // more of them, each with its line end
	body        string

	stream, whole string // the expected bytes; "" where an error is expected
	failure       string // status line and body of the expected error, without what the gateway adds
}

// compatibleRecordings are those of package dialect, with the expectations that were read there.
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
		t.Fatalf("only %d recordings", len(all))
	}
	return all
}

// answers is the recording as raw bytes of HTTP: with a length, in chunks of random sizes, each cut into segments at
// the places that cut chooses.
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
	created  = regexp.MustCompile(`"created": ?\d+`)
	extended = regexp.MustCompile(`,"(provider|upstream_status|upstream_request_id)":("[^"]*"|\d+)`)
	priced   = regexp.MustCompile(`,"cost":([0-9.]+|\{[^}]*\})`) // see TestCostOfRecordedResponses
	madeUp   = regexp.MustCompile(`chatcmpl-(gateway|test|[0-9a-f]{32})|call_[a-z2-7]{24}`)
)

// plain is an answer without what differs from run to run.
func plain(s string) string {
	s = strings.ReplaceAll(s, ": keep-alive\n", "") // where the machine is slow
	s = created.ReplaceAllString(s, `"created":0`)
	s = extended.ReplaceAllString(s, "")
	s = priced.ReplaceAllString(s, "")
	s = madeUp.ReplaceAllString(s, "MADE-UP")
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
// with real sockets and the compiled plugin, to streaming and non-streaming clients: at once, byte by byte, and split
// at random places. The client gets the same bytes each time, which are those of the reviewed golden files.
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
	if testing.Short() { // the decoders' own tests cut at every place
		delete(cuts, "in bytes")
		delete(cuts, "at once")
	}
	var scripts []upstreamtest.Script
	type run struct {
		rec      *recording
		cut      string
		streamed bool
	}
	var runs []run
	for i := range all {
		for cut, places := range cuts {
			for _, streamed := range []bool{false, true} {
				runs = append(runs, run{&all[i], cut, streamed})
				scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), all[i].answer(cut != "at once", rnd, places)})
			}
		}
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for _, r := range runs {
		t.Run(fmt.Sprintf("%s/%s/streamed %v", r.rec.name, r.cut, r.streamed), func(t *testing.T) {
			body := `{"model":"gpt","messages":[{"role":"user","content":"How is the weather just now?"}]`
			if r.streamed {
				body += `,"stream":true,"stream_options":{"include_usage":true}`
			}
			got := g.Chat(t, body+"}")
			if got.Err != nil {
				t.Fatalf("the body ended with %v", got.Err)
			}
			check(t, r.rec, r.streamed, got)
		})
	}
}

func check(t *testing.T, rec *recording, streamed bool, got *proxytest.Reply) {
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
		// Nothing came before the error: the client gets it as the answer.
		want = strings.TrimSuffix(strings.TrimPrefix(rec.stream, "data: "), "\n\n")
		status = got.Status
	case streamed:
		if got.Status != 200 || plain(got.Body) != plain(rec.stream) {
			t.Errorf("got %d\n%s\nwant\n%s", got.Status, plain(got.Body), plain(rec.stream))
		}
		return
	case strings.HasPrefix(want, `{
  "error":`):
		status = got.Status
		if status < 400 {
			t.Errorf("an error has status %d", status)
		}
	}
	if got.Status != status || plain(compact(t, got.Body)) != plain(compact(t, want)) {
		t.Errorf("got %d\n%s\nwant %d\n%s", got.Status, plain(compact(t, got.Body)), status, plain(compact(t, want)))
	}
}
