package engine_test

import (
	"context"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// input is the input of the function event of the guest small, which finds a quoted text in it.
const input = `{"type":"content_block_delta","index":0}`

// withInput writes the input into the guest's buffer, and returns its length.
func withInput(tb testing.TB, i *engine.Instance) uint64 {
	tb.Helper()
	addr := run(tb, i, "buffer", 4096)
	if !i.Write(uint32(addr), []byte(input)) {
		tb.Fatal("the input buffer is outside of the memory")
	}
	return uint64(len(input))
}

func BenchmarkCallEmpty(b *testing.B) {
	i := instantiate(b, goModule(b, "small"))
	f := function(b, i, "empty")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Call(f, plenty); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallWithHostCall(b *testing.B) {
	i := instantiate(b, goModule(b, "small"))
	n := withInput(b, i)
	f := function(b, i, "event")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Call(f, plenty, n); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(i.Used()), "fuel/op")
}

func BenchmarkInstantiate(b *testing.B) {
	m := goModule(b, "small")
	b.ReportAllocs()
	for b.Loop() {
		i, err := m.Instantiate(context.Background(), nil, plenty)
		if err != nil {
			b.Fatal(err)
		}
		i.Close()
	}
}

func BenchmarkCompileCold(b *testing.B) {
	wasm := goGuest(b, "small")
	e := newEngine(b, engine.Options{})
	for b.Loop() {
		m, err := e.Compile(context.Background(), "small", wasm)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileCached(b *testing.B) {
	wasm := goGuest(b, "small")
	e := newEngine(b, engine.Options{CacheDir: b.TempDir()})
	compile(b, e, wasm).Close()
	for b.Loop() {
		m, err := e.Compile(context.Background(), "small", wasm)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInstantiateFromImage(b *testing.B) {
	m := goModule(b, "small")
	img := snapshot(b, instantiate(b, m))
	b.ReportAllocs()
	for b.Loop() {
		i, err := m.InstantiateFrom(context.Background(), nil, img)
		if err != nil {
			b.Fatal(err)
		}
		i.Close()
	}
}

// BenchmarkRestore measures an event after a change of the tenant, which adds restoring the image and copying the pages
// that the call writes.
func BenchmarkRestore(b *testing.B) {
	i := instantiate(b, goModule(b, "small"))
	n := withInput(b, i)
	f := function(b, i, "event")
	img := snapshot(b, i)
	b.ReportAllocs()
	for b.Loop() {
		if err := i.Restore(img); err != nil {
			b.Fatal(err)
		}
		if _, err := i.Call(f, plenty, n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	i := instantiate(b, goModule(b, "small"))
	for b.Loop() {
		img, err := i.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		img.Close()
	}
}
