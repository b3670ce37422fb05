package plugin_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// importLoop is a guest that calls one import in an endless loop, with the arguments that cause the most work for the
// host.
type importLoop struct {
	name    string
	imports string // name of the import
	request bool   // in provider_request instead of provider_event
	data    []byte // at dataAt
	args    []w.Op
	results int // number of results, 0 or 1
}

// dataAt is the address of an importLoop's data.
const dataAt = 1 << 20

func importLoops() []importLoop {
	at := func(length int) w.Op { return w.Code(i32(dataAt), i32(int32(length))) }
	long := bytes.Repeat([]byte("long text "), 6554)
	escapes := bytes.Repeat([]byte(`\u00e4\n`), 8192)
	many := []byte("[" + strings.Repeat("0,", 30_000) + "0]")
	header := []byte("x-header")
	none := w.Code(i32(0), i32(0))
	deep := []byte("/messages/0/content")
	return []importLoop{
		{"log", "log", false, long, []w.Op{i32(2), at(len(long))}, 0},
		{"log of a few bytes", "log", false, long, []w.Op{i32(2), at(10)}, 0},
		{"fail", "fail", false, long, []w.Op{i32(0), at(256), at(256), at(2048), i32(0)}, 0},
		{"fail with a long text", "fail", false, long, []w.Op{i32(0), none, none, at(len(long)), i32(0)}, 0},
		{"warn", "warn", true, long, []w.Op{i32(0), at(len(long))}, 0},
		{"warn of a few bytes", "warn", true, long, []w.Op{i32(0), at(10)}, 0},
		{"explain", "unknown", false, long, []w.Op{at(len(long))}, 0},
		{"body_get of all", "body_get", true, nil, []w.Op{none, i32(dataAt), i32(1 << 20)}, 1},
		{"body_get by a path", "body_get", true, deep, []w.Op{at(len(deep)), none}, 1},
		{"body_get of a long path", "body_get", true, bytes.Repeat([]byte("/messages"), 7000), []w.Op{at(63_000), none}, 1},
		{"body_count", "body_count", true, []byte("/messages"), []w.Op{at(9)}, 1},
		{"input_get by a path", "input_get", false, deep, []w.Op{at(len(deep)), none}, 1},
		{"input_count of many", "input_count", false, nil, []w.Op{none}, 1},
		{"input_text", "input_text", false, []byte("/0"), []w.Op{at(2), i32(dataAt + 2), i32(1 << 20)}, 1},
		{"body_set", "body_set", true, append([]byte("/temperature"), many...), []w.Op{at(12), i32(dataAt + 12), i32(int32(len(many)))}, 1},
		{"body_set everywhere", "body_set", true, []byte("/messages/*/content1"), []w.Op{at(19), i32(dataAt + 19), i32(1)}, 1},
		{"body_delete", "body_delete", true, []byte("/messages/*/content"), []w.Op{at(19)}, 1},
		{"request_path", "request_path", true, []byte("/v1/" + strings.Repeat("%41", 1000)), []w.Op{at(3004)}, 1},
		{"request_header", "request_header", true, append(header, long...), []w.Op{at(8), i32(dataAt + 8), i32(4000)}, 1},
		{"request_write", "request_write", true, long, []w.Op{at(len(long))}, 0},
		{"request_string", "request_string", true, bytes.Repeat([]byte("\n"), 4096), []w.Op{at(4096)}, 1},
		{"request_copy", "request_copy", true, nil, []w.Op{i32(0), i32(1000)}, 0},
		{"tool_alias", "tool_alias", true, long, []w.Op{at(250), at(250)}, 1},
		{"answer", "answer", true, []byte(`{"reasoning_format":"deepseek","think_tags":true}`), []w.Op{i32(1), i32(1), at(49)}, 1},
		{"response_header", "response_header", false, header, []w.Op{at(8), none}, 1},
		{"state_get", "state_get", false, nil, []w.Op{i32(dataAt), i32(4096)}, 1},
		{"state_set", "state_set", false, long, []w.Op{at(4096)}, 1},
		{"start", "start", false, long, []w.Op{at(250), at(250), at(250)}, 0},
		{"text", "text", false, long, []w.Op{i32(0), i32(0), at(1000)}, 0},
		{"text with escapes", "text", false, escapes, []w.Op{i32(0), i32(1), at(960)}, 0},
		{"text of JSON", "text", false, many, []w.Op{i32(0), i32(2), at(len(many))}, 0},
		{"reasoning", "reasoning", false, long, []w.Op{i32(0), i32(0), i32(0), i32(0), at(1)}, 0},
		{"tool_call", "tool_call", false, long, []w.Op{i32(0), i32(1), at(1), at(1)}, 0},
		{"tool_arguments", "tool_arguments", false, long, []w.Op{i32(0), i32(1), i32(0), at(100)}, 1},
		{"extra", "extra", false, append([]byte("x"), many...), []w.Op{i32(0), i32(0), i32(0), at(1), i32(dataAt + 1), i32(int32(len(many)))}, 1},
		{"text_length", "text_length", false, nil, []w.Op{i32(0)}, 1},
		{"usage", "usage", false, nil, []w.Op{i32(0), w.I64Const(1)}, 0},
		{"finish", "finish", false, long, []w.Op{i32(0), i32(0), at(256)}, 0},
		{"finish with a long reason", "finish", false, long, []w.Op{i32(0), i32(0), at(len(long))}, 0},
		{"openai_event", "openai_event", false, []byte(`{"choices":[{"delta":{"content":"x"}}]}`), []w.Op{at(39)}, 1},
		{"openai_event of a long list", "openai_event", false, many, []w.Op{at(len(many))}, 1},
		{"unknown", "unknown", false, long, []w.Op{at(len(long))}, 0},
	}
}

// module builds the guest.
func (c importLoop) module() []byte {
	m := newModule(c.imports)
	m.ExportMemory(64, w.NoMax)
	m.export(abi.ExportVersion, "", i32(0))
	m.export(abi.ExportBuffer, "i", i32(inputAt))
	m.export(abi.ExportConfigure, "ii", i32(0))
	if c.data != nil {
		m.Data(dataAt, c.data)
	}
	code := append(append([]w.Op{}, c.args...), m.call(c.imports))
	for range c.results {
		code = append(code, w.Drop)
	}
	busy, idle := forever(code...), i32(1)
	if c.request {
		m.export(abi.ExportRequest, "ii", busy, i32(0))
		m.export(abi.ExportEvent, "iiii", idle)
	} else {
		m.export(abi.ExportRequest, "ii", idle)
		m.export(abi.ExportEvent, "iiii", busy, i32(0))
	}
	return m.Bytes()
}

// secrets returns n credentials of different lengths.
func secrets(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]string, n)
	for i := range out {
		b := make([]byte, 30+i)
		for k := range b {
			b[k] = "abcdefghijklmnopqrstuvwxyz+/ABCDEFGHIJ0123456789"[r.IntN(48)]
		}
		out[i] = string(b)
	}
	return out
}

func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkPrices measures the processor time of calls that only call one import until they run out of fuel, with 95
// credentials to redact. It should be at most 60 ms for a request and 9 ms for an event.
func BenchmarkPrices(b *testing.B) {
	h := newHost(b, plugin.Options{Now: func() time.Time { return unixMilli(0) }})
	redactor := credential.NewRedactor(secrets(95)...)
	request := fmt.Sprintf(`{"model":"m","messages":[%s{"role":"user","content":"hi"}]}`, strings.Repeat(`{"role":"user","content":"hi"},`, 30))
	for _, c := range importLoops() {
		b.Run(c.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			p := load(b, h, plugin.Spec{Wasm: c.module()})
			bound := bind(b, p, plugin.BindingConfig{Redact: redactor.Redact, Searches: redactor.Searches, Paths: []string{"/v1/*"}, Headers: []string{"x-header"}})
			value := bytes.Repeat([]byte("value"), 1600)
			a := newAttempt(b, request)
			a.ResponseHeader = func([]byte) []byte { return value }
			limit, call := 9*time.Millisecond, func() error { return bound.Event(b.Context(), a, abi.EventPlain, nil, nil) }
			if c.request {
				limit, call = 60*time.Millisecond, func() error { return bound.Request(b.Context(), a) }
			}
			took := time.Duration(1 << 62)
			var err error
			for range b.N + 1 {
				began := threadTime(b)
				err = call()
				took = min(took, threadTime(b)-began)
			}
			if err == nil {
				b.Fatal("the call did not use up its budget")
			}
			b.ReportMetric(float64(took.Microseconds())/1000, "cpu-ms/call")
			b.ReportMetric(took.Seconds()/limit.Seconds(), "of-limit")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestWarnWithManyCredentials runs a guest that passes 64 KB to warn until its fuel is used up. Searching all of that
// for 95 credentials each time would take 4 to 6 s.
func TestWarnWithManyCredentials(t *testing.T) {
	redactor := credential.NewRedactor(secrets(95)...)
	for _, c := range importLoops() {
		if c.name != "warn" {
			continue
		}
		p := load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: c.module()})
		bound := bind(t, p, plugin.BindingConfig{Redact: redactor.Redact, Searches: redactor.Searches})
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := threadTime(t)
		err := bound.Request(t.Context(), newAttempt(t, body))
		took := threadTime(t) - began
		wantCallError(t, err, plugin.KindOutOfFuel)
		if took > 500*time.Millisecond {
			t.Errorf("the call took %v of processor time, want at most 500ms", took)
		}
	}
}

// TestRedactedBeginning checks that a credential does not appear in the beginning of a text, even if the text is
// truncated within it.
//
// covers: C75
func TestRedactedBeginning(t *testing.T) {
	secret := secrets(1)[0]
	redactor := credential.NewRedactor(secret)
	for _, before := range []int{0, 200, abi.MaxName - 1, abi.MaxName, 4<<10 + abi.MaxName - 10, 100 << 10} {
		text := b(strings.Repeat("a", before) + secret + strings.Repeat("b", 5000))
		bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
			h.Warn(abi.WarnDropped, text)
			h.RequestPath(b("/v1/x"))
			return 0
		}}, plugin.BindingConfig{Redact: redactor.Redact, Paths: []string{"/v1/*"}})
		a := newAttempt(t, body)
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if len(a.Warnings) != 1 || strings.Contains(a.Warnings[0].Member, secret[:8]) || len(a.Warnings[0].Member) > abi.MaxName {
			t.Errorf("%d bytes before the credential: warnings %v", before, a.Warnings)
		}
	}
}
