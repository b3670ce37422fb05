package fuel_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

func TestMeteredProgramsDoTheSame(t *testing.T)    { SamePrograms(t, Meter) }
func TestEveryPathIsCharged(t *testing.T)          { SameRandomPrograms(t, Meter) }
func TestMeteredGraphsDoTheSame(t *testing.T)      { SameGraphs(t, Meter) }
func TestMeteredGoFunctionsDoTheSame(t *testing.T) { SameGoFunctions(t, Meter) }
func TestMeteredGoGuestDoesTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest twice; smaller programs run with -short")
	}
	SameGoGuest(t, Meter)
}

func TestInfoDescribesOriginal(t *testing.T) {
	var m Module
	m.Import("env", "double", i64, i64)
	m.Import("sluice", "log", Types(I32, I32, I32), none)
	m.Memory(2, 30)
	m.Global(I64, true, I64Const(4))
	m.Table(FuncRef, 1, NoMax)
	f := m.Func(Types(I32, F64), Types(I64), none, I64Const(1))
	m.Export("memory", KindMemory, 0)
	m.Export("run", KindFunc, f)
	m.Export("log", KindFunc, 1)
	m.Export("state", KindGlobal, 0)
	m.Export("table", KindTable, 0)
	m.Start(m.Func(none, none, none))
	m.Data(0, []byte("a"))
	m.Data(2, []byte("b"))
	m.Data(2000, []byte("c"))
	m.Custom("name", nil)
	m.Custom(".debug_info", make([]byte, 100))
	original := m.Bytes()

	out, got, err := fuel.Rewrite(original, fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := fuel.Info{
		Imports: []wasm.Import{
			{Module: "env", Name: "double", Type: wasm.FuncType{Params: i64, Results: i64}},
			{Module: "sluice", Name: "log", Type: wasm.FuncType{Params: Types(I32, I32, I32), Results: none}},
		},
		Exports: []wasm.Export{
			{Name: "memory", Kind: wasm.ExternMemory},
			{Name: "run", Kind: wasm.ExternFunc, Index: 2, Type: wasm.FuncType{Params: Types(I32, F64), Results: i64}},
			{Name: "log", Kind: wasm.ExternFunc, Index: 1, Type: wasm.FuncType{Params: Types(I32, I32, I32), Results: none}},
			{Name: "state", Kind: wasm.ExternGlobal},
			{Name: "table", Kind: wasm.ExternTable},
		},
		Memory:  wasm.Limits{Min: 2, Max: 30, HasMax: true},
		Start:   true,
		Globals: []string{fuel.ExportGlobal + "0"}, Restorable: true,
	}
	for i := range got.Exports {
		if !bytes.HasPrefix(original[got.Exports[i].At+1:], []byte(got.Exports[i].Name)) {
			t.Errorf("export %q is not at offset %d", got.Exports[i].Name, got.Exports[i].At)
		}
		got.Exports[i].At = 0
	}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
	if bytes.Contains(out, []byte("\x04name")) || bytes.Contains(out, []byte(".debug_info")) {
		t.Error("the output contains custom sections")
	}
}

func TestAddedFunctionIsNotExported(t *testing.T) {
	var m Module
	m.ExportMemory(1, NoMax)
	m.ExportFunc("f", none, none, none)
	rt := NewRuntime(t)
	c, err := rt.CompileModule(context.Background(), Meter(t, m.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.ExportedFunctions()); n != 1 {
		t.Errorf("%d exported functions, want only f", n)
	}
}
