package wasm_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

func TestTakeData(t *testing.T) {
	with := func(edit func(m *w.Module)) *w.Module {
		m := &w.Module{}
		m.ExportMemory(1, w.NoMax)
		edit(m)
		return m
	}
	const page = 64 << 10
	tests := []struct {
		name   string
		module *w.Module
		want   []wasm.Data // nil if the module keeps its data
	}{
		{"none", with(func(*w.Module) {}), nil},
		{"active", with(func(m *w.Module) {
			m.Data(8, []byte("one"))
			m.Data(page-3, []byte("two"))
			m.Custom("after", []byte("x"))
		}), []wasm.Data{{Offset: 8, Bytes: []byte("one")}, {Offset: page - 3, Bytes: []byte("two")}}},
		{"overlapping", with(func(m *w.Module) {
			m.Data(8, []byte("one"))
			m.Data(9, []byte("two"))
		}), []wasm.Data{{Offset: 8, Bytes: []byte("one")}, {Offset: 9, Bytes: []byte("two")}}},
		{"empty at the end", with(func(m *w.Module) { m.Data(page, nil) }), []wasm.Data{{Offset: page, Bytes: []byte{}}}},
		{"beyond the memory", with(func(m *w.Module) { m.Data(page-2, []byte("two")) }), nil},
		{"negative offset", with(func(m *w.Module) { m.Data(1<<32-1, []byte("x")) }), nil},
		{"passive", with(func(m *w.Module) {
			m.Data(0, []byte("one"))
			m.PassiveData([]byte("two"))
		}), nil},
		{"data count section, so code may refer to it", with(func(m *w.Module) {
			m.Data(0, []byte("one"))
			m.CountData()
		}), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			module := test.module.Bytes()
			before := bytes.Clone(module)
			rest, data, err := wasm.TakeData(module)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(module, before) {
				t.Error("the input was modified")
			}
			segments, err := wasm.Segments(data)
			if err != nil || !reflect.DeepEqual(segments, test.want) {
				t.Errorf("segments %v, %v, want %v", segments, err, test.want)
			}
			m, err := wasm.Parse(rest)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == nil {
				if !bytes.Equal(rest, module) {
					t.Error("the module keeps its data, but the output differs")
				}
				return
			}
			if m.Section(wasm.SecData) != nil || len(rest) >= len(module) {
				t.Error("the output still contains the data section")
			}
		})
	}
}

func TestSegmentsRejectsDamage(t *testing.T) {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.Data(8, []byte("some bytes"))
	_, data, err := wasm.TakeData(m.Bytes())
	if err != nil || data == nil {
		t.Fatal(data, err)
	}
	for n := 1; n < len(data); n++ {
		if _, err := wasm.Segments(data[:n]); err == nil {
			t.Errorf("accepted the first %d of %d bytes", n, len(data))
		}
	}
	if _, err := wasm.Segments(append(data, 0)); err == nil {
		t.Error("accepted a trailing byte")
	}
}
