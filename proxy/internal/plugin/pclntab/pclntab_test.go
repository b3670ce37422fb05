package pclntab_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/pclntab"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// memory returns the initial memory of a module.
func memory(t testing.TB, module []byte) []byte {
	t.Helper()
	m, err := wasm.Parse(module)
	if err != nil {
		t.Fatal(err)
	}
	var p []byte
	for _, d := range m.Data {
		if end := int(d.Offset) + len(d.Bytes); end > len(p) {
			p = slices.Grow(p, end-len(p))[:end]
		}
		copy(p[d.Offset:], d.Bytes)
	}
	return p
}

func TestFunctionsOfGoModule(t *testing.T) {
	p := memory(t, plugintest.Build(t, "proxy/plugintest/testdata/failing"))
	table, ok := pclntab.New(p[max(pclntab.Index(p), 0):])
	if !ok {
		t.Fatal("no table")
	}
	source, err := os.ReadFile("../../../plugintest/testdata/failing/main.go")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(source), "func (f *failing) Request(")
	want := strings.Count(before, "\n") + 1
	found := 0
	for i := range table.Len() {
		f, ok := table.At(i)
		if !ok {
			continue
		}
		if f.Name == "main.(*failing).Request" {
			found++
			if f.Line != want || filepath.Base(f.File) != "main.go" || f.LineAt(0) != want || f.LineAt(4) <= want {
				t.Errorf("got %s:%d, and %d and %d for the first blocks; want main.go:%d, the same, and more", f.File, f.Line, f.LineAt(0), f.LineAt(4), want)
			}
			if f.FrameSize() == 0 || f.FrameSize()%8 != 0 {
				t.Errorf("got a frame of %d bytes", f.FrameSize())
			}
		}
	}
	if found != 1 {
		t.Errorf("found %d functions of that name, with %s", found, runtime.Version())
	}
	for index := range 1 << 16 {
		if f, ok := table.Func(index); ok && f.Name == "main.(*failing).Request" {
			return
		}
	}
	t.Error("the function is not found by its number")
}

// FuzzTable reads every function of a table of any bytes.
func FuzzTable(f *testing.F) {
	p := memory(f, plugintest.Build(f, "proxy/plugintest/testdata/failing"))
	p = p[pclntab.Index(p):]
	f.Add(p[:200], uint16(3), uint16(1))
	f.Add(p[:min(len(p), 64<<10)], uint16(3), uint16(1))
	f.Fuzz(func(t *testing.T, p []byte, index, block uint16) {
		table, ok := pclntab.New(p)
		if !ok {
			return
		}
		for i := range min(table.Len(), 1000) {
			if f, ok := table.At(i); ok && f.Name == "" {
				t.Error("function without a name")
			}
		}
		if f, ok := table.Func(int(index)); ok {
			f.LineAt(block)
			f.FrameSize()
		}
	})
}
