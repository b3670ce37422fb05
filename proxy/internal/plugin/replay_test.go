package plugin_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// bundledPlugins builds the bundled plugins.
var bundledPlugins = sync.OnceValues(func() ([]byte, error) {
	dir, err := filepath.Abs("../../../plugins/all")
	if err != nil {
		return nil, err
	}
	job := buildtest.Guest(dir, "")
	file, err := job.Run()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// bindOpenAI binds the bundled plugin openai, with and without replay.
func bindOpenAI(t testing.TB, settings string) (replaying, ordinary *plugin.Binding) {
	t.Helper()
	wasm, err := bundledPlugins()
	if err != nil {
		t.Fatal(err)
	}
	c := plugin.BindingConfig{Settings: []byte(settings), Paths: []string{"/*", "/*/*"}}
	for _, replay := range []bool{true, false} {
		b := bind(t, load(t, newGoHost(t, plugin.Options{Replay: replay}), plugin.Spec{Name: "openai", Wasm: wasm}), c)
		if replay {
			replaying = b
		} else {
			ordinary = b
		}
	}
	return replaying, ordinary
}

// outcome is what a call of provider_request has done.
type outcome struct {
	Out      plugin.OutRequest
	Framing  abi.Framing
	Dialect  abi.Dialect
	Options  any
	Warnings []plugin.Warning
	State    []byte
	Alias    string
	Err      string
}

// request makes a request, and returns what it has done and the fuel that it has used.
func request(t testing.TB, b *plugin.Binding, settings string, a *plugin.Attempt) (o outcome, fuel int64) {
	t.Helper()
	now := time.Now()
	a.Summary.RequestID, a.Summary.Time, a.Summary.Random = now.String(), now, uint64(now.UnixNano())
	a.Summary.Options, a.Summary.Attempt = []byte(settings), 1
	err := b.Request(t.Context(), a)
	o = outcome{a.Out, a.Framing, a.Dialect, a.DialectOptions, a.Warnings, a.State(), string(a.Alias([]byte("t_f_"))), fmt.Sprint(err)}
	o.Out.Body = []byte(string(a.Out.Body))
	return o, a.Fuel
}

// TestReplayEqualsCall compares requests that the host makes by itself with those that the guest makes, for requests
// with random members.
//
// covers: C81
func TestReplayEqualsCall(t *testing.T) {
	requests, err := filepath.Glob("../../../plugins/openai/testdata/presets/requests/*.json")
	if err != nil || len(requests) < 10 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	bodies := []string{body}
	for _, name := range requests {
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(p))
	}
	value := rapid.SampledFrom([]string{"1", "20", "-1", "null", "0.5", `"low"`, `"x"`, "true", `{"type":"enabled","budget_tokens":2048}`})
	member := rapid.SampledFrom([]string{"max_tokens", "max_completion_tokens", "reasoning_effort", "top_k", "user", "temperature", "thinking", "stream", "n", "seed"})
	replayed := 0
	for name, settings := range map[string]string{
		"plain":   `{}`,
		"options": `{"max_tokens_member":"max_completion_tokens","developer_role":"system","rename":{"seed":"random_seed"},"drop":["user"],"set":{"safe":true},"refuse":["logprobs"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			replaying, ordinary := bindOpenAI(t, settings)
			rapid.Check(t, func(r *rapid.T) {
				text := rapid.SampledFrom(bodies).Draw(r, "request")
				for range rapid.IntRange(0, 2).Draw(r, "members") {
					text = strings.TrimSuffix(strings.TrimSpace(text), "}") + fmt.Sprintf(`,%q:%s}`, member.Draw(r, "member"), value.Draw(r, "value"))
				}
				if new(openai.Request).Parse([]byte(text), clientapi.Limits{}) != nil {
					r.Skip("not a valid request") // such as one with a duplicate member
				}
				want, _ := request(t, ordinary, settings, newAttempt(r, text))
				for range 2 { // the second one can be replayed
					got, fuel := request(t, replaying, settings, newAttempt(r, text))
					if diff := cmp.Diff(want, got); diff != "" {
						r.Fatalf("%s: the replay differs:\n%s", text, diff)
					}
					if fuel == 0 {
						replayed++
					}
				}
			})
		})
	}
	if replayed < 20 {
		t.Errorf("%d requests were replayed", replayed)
	}
}

// oneLimit has the plugin read and rename the limit of the response.
const oneLimit = `{"max_tokens_member":"max_tokens"}`

// TestReplayDoesNotMixRequests replays a request whose prompt, limit and key differ from the recorded one.
func TestReplayDoesNotMixRequests(t *testing.T) {
	replaying, _ := bindOpenAI(t, oneLimit)
	for i, prompt := range []string{"first", "second", "third"} {
		a := newAttempt(t, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"max_completion_tokens":7}`, prompt))
		a.Tenant = prompt
		o, fuel := request(t, replaying, oneLimit, a)
		if (fuel == 0) != (i > 0) {
			t.Errorf("%s: %d fuel", prompt, fuel)
		}
		if got := string(o.Out.Body); !strings.Contains(got, `"content":"`+prompt) || !strings.Contains(got, `"max_tokens":7`) {
			t.Errorf("%s: sent %s, %s", prompt, got, o.Err)
		}
	}
	// Another limit is a result that the host has not seen.
	a := newAttempt(t, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_completion_tokens":8}`)
	if o, fuel := request(t, replaying, oneLimit, a); fuel == 0 || !strings.Contains(string(o.Out.Body), `"max_tokens":8`) {
		t.Errorf("%d fuel, sent %s", fuel, o.Out.Body)
	}
}

// TestReplayIsBounded sends requests that all differ, in what the plugin reads and in their summary. They stay right, and
// what has been learnt before stays.
func TestReplayIsBounded(t *testing.T) {
	replaying, _ := bindOpenAI(t, oneLimit)
	send := func(model string, limit int) (fuel int64) {
		a := newAttempt(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],"max_completion_tokens":%d}`, model, limit))
		a.Summary.Model = model
		o, fuel := request(t, replaying, oneLimit, a)
		if !strings.Contains(string(o.Out.Body), fmt.Sprintf(`"max_tokens":%d`, limit)) {
			t.Fatalf("sent %s", o.Out.Body)
		}
		return fuel
	}
	send("m", 1)
	for i := range 200 {
		send("m", i+2)
		send(fmt.Sprint("model-", i), 1)
	}
	if fuel := send("m", 1); fuel != 0 {
		t.Errorf("the first request is not replayed any more")
	}
	if fuel := send("m", 150); fuel == 0 {
		t.Errorf("a request beyond the limit is replayed")
	}
}

// TestReplayOfUnpredictableCalls has a plugin read a value that is too long to be predicted, many times. After that, the
// gateway does not try to predict the plugin's other calls either, and spares itself the recording of each.
//
// covers: C81
func TestReplayOfUnpredictableCalls(t *testing.T) {
	const pathAt, valueAt = 8 << 10, 16 << 10
	m := newModule("request_path", "body_get").base()
	m.Data(pathAt, b("/chat/model"))
	m.export(abi.ExportSummary, "i", i32(0))
	m.export(abi.ExportRequest, "ii",
		i32(pathAt), i32(5), m.call("request_path"), w.Drop,
		i32(pathAt+5), i32(6), i32(valueAt), i32(4096), m.call("body_get"), w.Drop, i32(0))
	bound := bind(t, load(t, newHost(t, plugin.Options{Replay: true}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{Paths: []string{"/*"}})
	send := func(model string) (replayed bool) {
		o, fuel := request(t, bound, "{}", newAttempt(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}]}`, model)))
		if o.Err != "<nil>" || o.Out.Path != "/chat" {
			t.Fatal(o.Out.Path, o.Err)
		}
		return fuel == 0
	}
	long := strings.Repeat("m", 600)
	for i, c := range []struct {
		model    string
		replayed bool
	}{{long, false}, {long, false}, {"a", false}, {"a", true}} {
		if got := send(c.model); got != c.replayed {
			t.Fatalf("call %d: replayed %t", i, got)
		}
	}
	for range 100 {
		if send(long) {
			t.Fatal("a call with a long value was replayed")
		}
	}
	if !send("a") {
		t.Error("what was recorded before is not replayed any more")
	}
	for range 2 {
		if send("b") {
			t.Error("calls are still recorded")
		}
	}
}

// TestReplayNeedsDeclaration counts the calls of guests: only those that read nothing that differs in every request are
// spared, and only if they succeed.
//
// covers: C81
func TestReplayNeedsDeclaration(t *testing.T) {
	for name, test := range map[string]struct {
		declared bool
		parts    int32
		body     []w.Op // of provider_request
		calls    int32  // of the guest, out of three
	}{
		"nothing that differs": {true, 0, nil, 1},
		"the random number":    {true, int32(abi.SummaryRandom), nil, 3},
		"the request ID":       {true, int32(abi.SummaryRequestID), nil, 3},
		"no declaration":       {false, 0, nil, 3},
		"unknown parts":        {true, 1 << 20, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			const pathAt = 8 << 10
			m := newModule("request_path", "request_header").base()
			m.Data(pathAt, b("/chat"))
			m.Global(w.I32, true, i32(0)) // number of calls
			if test.declared {
				m.export(abi.ExportSummary, "i", i32(test.parts))
			}
			// The path's last letter tells how often the guest was called.
			m.export(abi.ExportRequest, "ii",
				w.GlobalGet(0), i32(1), w.I32Add, w.GlobalSet(0),
				i32(pathAt+4), w.GlobalGet(0), i32('0'), w.I32Add, w.I32Store8,
				i32(pathAt), i32(5), m.call("request_path"))
			bound := bind(t, load(t, newHost(t, plugin.Options{Replay: true}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{Paths: []string{"/*", "/*/*"}})
			var o outcome
			for range 3 {
				o, _ = request(t, bound, "{}", newAttempt(t, body))
				if o.Err != "<nil>" {
					t.Fatal(o.Err)
				}
			}
			if want := fmt.Sprint("/cha", test.calls); o.Out.Path != want {
				t.Errorf("the path is %s, want %s", o.Out.Path, want)
			}
		})
	}
}

// TestCompactSummary checks the bytes of a summary against the layout that the ABI's page specifies.
//
// covers: C80
func TestCompactSummary(t *testing.T) {
	at := time.UnixMilli(1789012345678)
	for parts, want := range map[abi.SummaryParts][4]uint64{
		abi.SummaryPartsKnown: {6, 1789012345678, 0x9f86d081884c7d65, 99},
		0:                     {},
		abi.SummaryRequestID:  {6, 0, 0, 0},
		abi.SummaryTime:       {0, 1789012345678, 0, 0},
		abi.SummaryRandom:     {0, 0, 0x9f86d081884c7d65, 0},
		abi.SummaryBody:       {0, 0, 0, 99},
	} {
		var in []byte
		bound := bindNative(t, native{summary: &parts, request: func(h abi.Host, summary []byte) int32 {
			in = slices.Clone(summary)
			h.RequestPath(b("/v1/chat/completions"))
			return 0
		}}, plugin.BindingConfig{Paths: []string{"/v1/chat/completions"}})
		a := newAttempt(t, body)
		a.Summary = plugin.Summary{
			RequestID: "req_01", Time: at, Attempt: 2, Random: 0x9f86d081884c7d65, Stream: true, IncludeUsage: true, Model: "fast", Flags: 1<<2 | 1, Body: 99,
			Form: "messages", ClientForm: "responses", Betas: []string{"a", "b"}, Tags: []string{"pii"}, Target: "p/model", MaxTokens: 64000, DefaultMaxTokens: 4096, Options: b(`{"a":1}`),
		}
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		le := binary.LittleEndian
		for at, n := range map[int]uint32{0: abi.SummaryHeadSize, 4: 3, 8: 5, 12: 1, 16: 2, 20: 2, 24: uint32(want[0]), 28: 4, 32: 7, 36: 9, 40: 7, 44: 7} {
			if got := le.Uint32(in[at:]); got != n {
				t.Errorf("parts %d: the number at %d is %d, want %d", parts, at, got, n)
			}
		}
		for at, n := range map[int]uint64{48: want[1], 56: want[2], 64: 64000, 72: 4096, 80: want[3]} {
			if got := le.Uint64(in[at:]); got != n {
				t.Errorf("parts %d: the number at %d is %d, want %d", parts, at, got, n)
			}
		}
		if got, want := string(in[abi.SummaryHeadSize:]), "req_01"[:want[0]]+`fastp/model["a","b"]["pii"]{"a":1}`; got != want {
			t.Errorf("parts %d: the texts are %s, want %s", parts, got, want)
		}
	}
}
