package fuel_test

import (
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

func TestRestorable(t *testing.T) {
	tests := []struct {
		name    string
		build   func(m *Module)
		want    bool
		globals []string
	}{
		{"only memory", func(m *Module) { m.ExportFunc("f", none, none, none) }, true, nil},
		{"mutable globals", func(m *Module) {
			m.Global(I32, true, I32Const(1))
			m.Global(I64, false, I64Const(2))
			m.Global(F64, true, F64Const(3))
		}, true, []string{"sluice.fuel.global.0", "sluice.fuel.global.2"}},
		{"constant reference", func(m *Module) { m.Global(FuncRef, false, RefNull(FuncRef)) }, true, nil},
		{"table that is only read", func(m *Module) {
			m.Table(FuncRef, 2, 2)
			m.ExportFunc("f", none, none, none, I32Const(0), TableGet(0), Drop, TableSize(0), Drop)
		}, true, nil},
		{"memory.init", func(m *Module) {
			m.PassiveData([]byte("data"))
			m.ExportFunc("f", none, none, none, I32Const(0), I32Const(0), I32Const(1), MemoryInit(0))
		}, true, nil},
		{"mutable reference", func(m *Module) { m.Global(ExternRef, true, RefNull(ExternRef)) }, false, []string{"sluice.fuel.global.0"}},
		{"too many globals", func(m *Module) {
			for range fuel.MaxGlobals + 1 {
				m.Global(I32, true, I32Const(1))
			}
		}, false, nil},
		{"data.drop", func(m *Module) {
			m.PassiveData([]byte("data"))
			m.ExportFunc("f", none, none, none, DataDrop(0))
		}, false, nil},
		{"elem.drop", func(m *Module) {
			f := m.ExportFunc("f", none, none, none, ElemDrop(0))
			m.PassiveElem(f)
		}, false, nil},
		{"table.set", func(m *Module) {
			m.Table(FuncRef, 2, 2)
			m.ExportFunc("f", none, none, none, I32Const(0), RefNull(FuncRef), TableSet(0))
		}, false, nil},
		{"table.grow", func(m *Module) {
			m.Table(FuncRef, 2, 2)
			m.ExportFunc("f", none, none, none, RefNull(FuncRef), I32Const(1), TableGrow(0), Drop)
		}, false, nil},
		{"table.fill", func(m *Module) {
			m.Table(FuncRef, 2, 2)
			m.ExportFunc("f", none, none, none, I32Const(0), RefNull(FuncRef), I32Const(1), TableFill(0))
		}, false, nil},
		{"table.copy", func(m *Module) {
			m.Table(FuncRef, 2, 2)
			m.ExportFunc("f", none, none, none, I32Const(0), I32Const(1), I32Const(1), TableCopy(0, 0))
		}, false, nil},
		{"table.init", func(m *Module) {
			m.Table(FuncRef, 2, 2)
			f := m.ExportFunc("f", none, none, none, I32Const(0), I32Const(0), I32Const(1), TableInit(0, 0))
			m.PassiveElem(f)
		}, false, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &Module{}
			m.ExportMemory(1, NoMax)
			test.build(m)
			_, info, err := fuel.Rewrite(m.Bytes(), fuel.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Restorable != test.want {
				t.Errorf("restorable is %v, want %v", info.Restorable, test.want)
			}
			if !slices.Equal(info.Globals, test.globals) {
				t.Errorf("globals %v, want %v", info.Globals, test.globals)
			}
		})
	}
}
