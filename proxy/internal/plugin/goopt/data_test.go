package goopt_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"

	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

func TestAdjacentSegmentsAreMerged(t *testing.T) {
	tests := []struct {
		name  string
		build func(m *Module)
		want  int
	}{
		{"adjacent", func(m *Module) { m.Data(0, []byte("ab")); m.Data(2, []byte("cd")) }, 1},
		{"gap of 64", func(m *Module) { m.Data(0, []byte("ab")); m.Data(66, []byte("cd")) }, 1},
		{"gap of 65", func(m *Module) { m.Data(0, []byte("ab")); m.Data(67, []byte("cd")) }, 2},
		{"chain", func(m *Module) {
			for i := range uint32(100) {
				m.Data(i*20, []byte("some data"))
			}
		}, 1},
		{"descending", func(m *Module) { m.Data(10, []byte("ab")); m.Data(0, []byte("cd")) }, 2},
		{"overlapping", func(m *Module) { m.Data(0, []byte("abcd")); m.Data(2, []byte("xy")) }, 2},
		{"an earlier segment in the gap", func(m *Module) {
			m.Data(5, []byte("xyz"))
			m.Data(0, []byte("ab"))
			m.Data(20, []byte("cd"))
		}, 3},
		{"an earlier segment ends in the gap", func(m *Module) {
			m.Data(0, []byte("0123456789"))
			m.Data(0, []byte("ab"))
			m.Data(20, []byte("cd"))
		}, 3},
		{"an earlier segment after the gap", func(m *Module) {
			m.Data(1000, []byte("xyz"))
			m.Data(0, []byte("ab"))
			m.Data(20, []byte("cd"))
		}, 2},
		{"an empty earlier segment in the gap", func(m *Module) {
			m.Data(5, nil)
			m.Data(0, []byte("ab"))
			m.Data(20, []byte("cd"))
		}, 2},
		{"adjacent, overlapping an earlier segment", func(m *Module) {
			m.Data(0, []byte("0123456789"))
			m.Data(2, []byte("ab"))
			m.Data(4, []byte("cd"))
		}, 2},
		{"empty segments", func(m *Module) { m.Data(0, nil); m.Data(0, nil); m.Data(7, nil); m.Data(8, []byte("x")) }, 1},
		{"passive between", func(m *Module) {
			m.Data(0, []byte("ab"))
			m.PassiveData([]byte("p"))
			m.Data(2, []byte("cd"))
		}, 3},
		{"used by memory.init", func(m *Module) {
			m.Data(0, []byte("ab"))
			m.Data(2, []byte("cd"))
			p := m.PassiveData([]byte("efgh"))
			m.ExportFunc("f", none, none, none, I32Const(1), I32Const(0), I32Const(4), MemoryInit(p))
		}, 3},
		{"used by data.drop", func(m *Module) {
			m.CountData()
			m.Data(0, []byte("ab"))
			m.Data(2, []byte("cd"))
			m.ExportFunc("f", none, none, none, DataDrop(1))
		}, 2},
		{"data count section, but not used by index", func(m *Module) {
			m.CountData()
			m.Data(0, []byte("ab"))
			m.Data(2, []byte("cd"))
		}, 1},
		{"at the end of memory", func(m *Module) { m.Data(65_530, []byte("ab")); m.Data(65_534, []byte("cd")) }, 1},
		{"with an explicit memory index", func(m *Module) {
			m.Data(0, []byte("ab"))
			m.DataRaw([]byte{2, 0, 0x41, 2, 0x0b, 1, 'c'})
		}, 1},
	}
	rt := NewRuntime(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m Module
			m.ExportMemory(1, NoMax)
			// The bytes of gaps that may be filled depend on the module's size.
			m.Custom("padding", make([]byte, 4096))
			tt.build(&m)
			wasm := m.Bytes()
			out, stats, err := goopt.Optimize(wasm)
			if err != nil {
				t.Fatal(err)
			}
			if stats.SegmentsMerged != tt.want {
				t.Errorf("%d segments became %d, want %d", stats.Segments, stats.SegmentsMerged, tt.want)
			}
			before, after := Instantiate(t, rt, wasm), Instantiate(t, rt, out)
			if before.ExportedFunction("f") != nil {
				before.Call(t, 0, "f")
				after.Call(t, 0, "f")
			}
			if !bytes.Equal(Memory(t, before), Memory(t, after)) {
				t.Error("memory differs")
			}
		})
	}
}

// TestMergingKeepsMemory merges random segments, which overlap, touch and leave gaps in every way.
func TestMergingKeepsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a guest in Go")
	}
	rt := NewRuntime(t)
	merged := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		wasm := Page(func(m *Module) {
			m.Custom("padding", make([]byte, 4096))
			at := uint32(0)
			for range 2 + r.IntN(30) {
				data := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, r.IntN(40))
				if r.IntN(4) == 0 {
					at = r.Uint32N(600)
				}
				m.Data(at, data)
				at += uint32(len(data)) + r.Uint32N(80)
			}
		})
		out, stats, err := goopt.Optimize(wasm)
		if err != nil {
			t.Fatal(err)
		}
		merged += stats.Segments - stats.SegmentsMerged
		if !bytes.Equal(Memory(t, Instantiate(t, rt, wasm)), Memory(t, Instantiate(t, rt, out))) {
			t.Errorf("seed %d: memory differs", seed)
		}
	}
	if merged < 100 {
		t.Errorf("merged only %d segments", merged)
	}
}

// TestGapOverEarlierSegments has more separate segments than the optimiser compares with, and one more in the gap.
func TestGapOverEarlierSegments(t *testing.T) {
	wasm := Page(func(m *Module) {
		m.Custom("padding", make([]byte, 4096))
		for i := range uint32(300) {
			m.Data(60_000-i*100, []byte("first"))
		}
		m.Data(5, []byte("in the gap"))
		m.Data(0, []byte("ab"))
		m.Data(20, []byte("cd"))
	})
	rt := NewRuntime(t)
	if !bytes.Equal(Memory(t, Instantiate(t, rt, wasm)), Memory(t, Instantiate(t, rt, optimize(t, wasm)))) {
		t.Error("memory differs")
	}
}

func TestSegmentOutOfMemoryFails(t *testing.T) {
	tests := []struct {
		offset uint32
		data   string
	}{
		{65_536, "x"}, {65_535, "xy"}, {65_537, ""}, {1<<32 - 1, "xy"}, {1<<32 - 4, ""},
	}
	rt := NewRuntime(t)
	ctx := context.Background()
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			wasm := Page(func(m *Module) {
				m.Data(65_500, []byte("abc"))
				m.Data(tt.offset, []byte(tt.data))
			})
			for _, b := range [][]byte{wasm, optimize(t, wasm)} {
				c, err := rt.CompileModule(ctx, b)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := rt.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName("")); err == nil {
					t.Error("a module with a segment outside of the memory was instantiated")
				}
			}
		})
	}
}

func TestFilledGapsAreBounded(t *testing.T) {
	wasm := Page(func(m *Module) {
		for i := range uint32(1000) {
			m.Data(i*65, []byte{1})
		}
	})
	out, _, err := goopt.Optimize(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if limit := 2*len(wasm) + 1000; len(out) > limit {
		t.Errorf("%d bytes became %d, want at most %d", len(wasm), len(out), limit)
	}
}
