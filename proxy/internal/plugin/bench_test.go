package plugin_test

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// cpu returns a function that reports the processor time per operation since cpu was called. On a busy machine that
// says more than ns/op.
func cpu(b *testing.B) (report func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := used()
	return func() { b.ReportMetric(float64((used()-began).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

// BenchmarkEvent measures an event that a guest echoes, including the response writer.
func BenchmarkEvent(b *testing.B) {
	h := newGoHost(b, plugin.Options{})
	guests := []struct {
		name string
		load func(testing.TB) *plugin.Plugin
	}{
		{"wasm", func(t testing.TB) *plugin.Plugin { return load(t, h, plugin.Spec{Wasm: echoModule().Bytes()}) }},
		{"go", func(t testing.TB) *plugin.Plugin { return loadGoGuest(t, h, plugin.Shared) }},
	}
	for _, g := range guests {
		b.Run(g.name, func(b *testing.B) {
			bound := bind(b, g.load(b), plugin.BindingConfig{})
			a := newAttempt(b, body)
			event, text := []byte("content_block_delta"), []byte("some words of an answer")
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				if err := bound.Event(b.Context(), a, abi.EventPlain, event, text); err != nil {
					b.Fatal(err)
				}
				a.Writer.Consume()
			}
			report()
			b.ReportMetric(float64(a.Fuel)/float64(b.N), "fuel/op")
		})
	}
}

// BenchmarkEventParallel is BenchmarkEvent on all cores, with one pool.
func BenchmarkEventParallel(b *testing.B) {
	h := newGoHost(b, plugin.Options{})
	bound := bind(b, load(b, h, plugin.Spec{Wasm: echoModule().Bytes()}), plugin.BindingConfig{})
	text := []byte("some words of an answer")
	report := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		a := newAttempt(b, body)
		for pb.Next() {
			if err := bound.Event(b.Context(), a, abi.EventPlain, nil, text); err != nil {
				b.Error(err)
			}
			a.Writer.Consume()
		}
	})
	report()
}

// BenchmarkIsolatedEvent measures an event of a Go guest whose instance has just served another client key.
func BenchmarkIsolatedEvent(b *testing.B) {
	h := newGoHost(b, plugin.Options{Instances: 1})
	for _, isolation := range []plugin.Isolation{plugin.PerKey, plugin.PerCall} {
		b.Run(isolation.String(), func(b *testing.B) {
			bound := bind(b, loadGoGuest(b, h, isolation), plugin.BindingConfig{})
			a := newAttempt(b, body)
			keys, text := []string{"alice", "bob"}, []byte("some words of an answer")
			n := 0
			for b.Loop() {
				a.Tenant = keys[n%2]
				n++
				if err := bound.Event(b.Context(), a, abi.EventPlain, nil, text); err != nil {
					b.Fatal(err)
				}
				a.Writer.Consume()
			}
		})
	}
}

// BenchmarkContention measures whole-body calls by eight clients per core, each of which does other work in between.
func BenchmarkContention(b *testing.B) {
	const loops = 4000
	m := newModule("text").base()
	m.provider(m.echo())
	m.ExportFunc(abi.ExportResponse, types("iii"), types("i"), types("i"),
		w.Loop(w.Void, w.LocalGet(3), i32(1), w.I32Add, w.LocalTee(3), i32(loops), w.I32LtU, w.BrIf(0)), i32(0))
	bound := bind(b, load(b, newGoHost(b, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
	b.SetParallelism(8)
	report := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		a := newAttempt(b, body)
		for pb.Next() {
			if err := bound.Response(b.Context(), a, 200, nil); err != nil {
				b.Error(err)
			}
			worked.Store(work(int(worked.Load())))
		}
	})
	report()
	b.ReportMetric(float64(bound.Plugin().Stats().Waits)/float64(b.N), "waits/op")
}

// work stands in for the other work of a request.
func work(x int) int64 {
	for i := range 20_000 {
		x += i * x
	}
	return int64(x)
}

var worked atomic.Int64

// BenchmarkTrap measures an event in which a Go guest panics, including the retry and the replacement of the instance.
func BenchmarkTrap(b *testing.B) {
	h := newGoHost(b, plugin.Options{})
	bound := bind(b, loadGoGuest(b, h, plugin.Shared), plugin.BindingConfig{})
	trap, text := []byte("panic"), []byte("some words of an answer")
	report := cpu(b)
	for b.Loop() {
		a := newAttempt(b, body)
		if err := bound.Event(b.Context(), a, abi.EventPlain, nil, trap); err == nil {
			b.Fatal("no trap")
		}
		if err := bound.Event(b.Context(), a, abi.EventPlain, nil, text); err != nil {
			b.Fatal(err)
		}
	}
	report()
}

// BenchmarkRequest measures what the host does in provider_request for a native guest that edits the client's body.
func BenchmarkRequest(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "100KB": 100 << 10} {
		b.Run(name, func(b *testing.B) {
			bound := bindNative(b, editing, editingConfig)
			a := newAttempt(b, `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("word ", size/5)+`"}],"stream":true}`)
			request := a.Request
			b.SetBytes(int64(len(request.Body)))
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				a.Request = request
				if err := bound.Request(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
			report()
		})
	}
}

// editing is a plugin that edits the client's body, as one for a compatible upstream does.
var editing = native{request: func(h abi.Host, _ []byte) int32 {
	h.RequestPath(chatPath)
	h.RequestHeader(versionHeader, version)
	h.RequestHeader(betaHeader, beta)
	h.BodySet(modelPointer, modelName)
	h.BodyDelete(thinkingPointer)
	h.Answer(abi.FramingSSE, abi.DialectOpenAI, dialectOptions)
	return 0
}}

var editingConfig = plugin.BindingConfig{Paths: []string{"/v1/chat/completions"}, Headers: []string{"x-api-version", "x-beta"}}

var (
	chatPath        = []byte("/v1/chat/completions")
	versionHeader   = []byte("X-Api-Version")
	version         = []byte("2025-01-01")
	betaHeader      = []byte("x-beta")
	beta            = []byte("one,two")
	modelPointer    = []byte("/model")
	modelName       = []byte(`"gpt-5"`)
	thinkingPointer = []byte("/thinking")
	dialectOptions  = []byte(`{"reasoning_format":"deepseek","think_tags":true}`)
)
