package fuel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// rewriteError rewrites a module and returns the error, with its reason; 0 and nil if the module is accepted.
func rewriteError(t *testing.T, module []byte) (wasm.Reason, *wasm.Error) {
	t.Helper()
	out, _, err := fuel.Rewrite(module, fuel.Options{})
	if err == nil {
		return 0, nil
	}
	var e *wasm.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is a %T: %v", err, err)
	}
	if out != nil {
		t.Error("got both an output and an error")
	}
	if e.Offset < 0 || e.Offset > len(module) {
		t.Errorf("offset %d of %d", e.Offset, len(module))
	}
	return e.Reason, e
}

func TestRejectsForbiddenModules(t *testing.T) {
	// body builds a module whose only function, with index 0, has this code.
	body := func(ops ...Op) func(m *Module) {
		return func(m *Module) { m.ExportFunc("f", none, none, none, ops...) }
	}
	raw := func(section byte, content ...byte) func(m *Module) {
		return func(m *Module) { m.Raw(section, content) }
	}
	tests := []struct {
		name  string
		build func(m *Module)
		want  wasm.Reason
	}{
		// Features that the plugin ABI does not allow.
		{"SIMD instruction", body(Op{0xfd, 12}, make(Op, 16), Drop), wasm.SIMD},
		{"SIMD local", func(m *Module) { m.Func(none, none, Types(V128)) }, wasm.SIMD},
		{"SIMD parameter", func(m *Module) { m.Type(Types(V128), none) }, wasm.SIMD},
		{"SIMD block", body(Block(Result(V128), Unreachable), Drop), wasm.SIMD},
		{"SIMD select", body(Unreachable, Op{0x1c, 1, V128}, Drop), wasm.SIMD},
		{"SIMD global", func(m *Module) { m.Global(V128, false, Code(Op{0xfd, 12}, make(Op, 16))) }, wasm.SIMD},
		{"SIMD in a constant expression", func(m *Module) { m.Global(I32, false, Code(Op{0xfd, 12}, make(Op, 16))) }, wasm.SIMD},
		{"atomic instruction", body(Op{0xfe, 3, 0}), wasm.Threads},
		{"shared memory", raw(SecMemory, 1, 3, 1, 1), wasm.Threads},
		{"return_call", body(Op{0x12, 0}), wasm.TailCalls},
		{"return_call_indirect", body(I32Const(0), Op{0x13, 0, 0}), wasm.TailCalls},
		{"try", body(Op{0x06, 0x40}, End), wasm.Exceptions},
		{"throw", body(Op{0x08, 0}), wasm.Exceptions},
		{"throw_ref", body(Op{0x0a}), wasm.Exceptions},
		{"try_table", body(Op{0x1f, 0x40, 0}, End), wasm.Exceptions},
		{"tag section", raw(SecTag, 1, 0, 0), wasm.Exceptions},
		{"imported tag", func(m *Module) { m.ImportRaw("env", "t", KindTag, []byte{0, 0}) }, wasm.Exceptions},
		{"exported tag", func(m *Module) { m.Export("t", KindTag, 0) }, wasm.Exceptions},
		{"exnref", func(m *Module) { m.Type(Types(0x69), none) }, wasm.Exceptions},
		{"call_ref", body(Op{0x14, 0}), wasm.References},
		{"struct.new", body(Op{0xfb, 0, 0}), wasm.References},
		{"br_on_null", body(Op{0xd5, 0}), wasm.References},
		{"recursive types", raw(SecType, 1, 0x4e, 1, 0x60, 0, 0), wasm.References},
		{"concrete reference", func(m *Module) { m.Raw(SecType, []byte{1, 0x60, 1, 0x64, 0, 0}) }, wasm.References},
		{"null of a concrete type", body(RefNull(0), Drop), wasm.References},
		{"table with initial value", raw(SecTable, 1, 0x40, 0, FuncRef, 0, 1, 0xd0, FuncRef, 0x0b), wasm.References},
		{"64-bit memory", raw(SecMemory, 1, 4, 1), wasm.Memory64},
		{"64-bit table", raw(SecTable, 1, FuncRef, 5, 1, 1), wasm.Memory64},
		{"two memories", func(m *Module) { m.Memory(1, 1) }, wasm.MultiMemory},
		{"memory.size of a second memory", body(Op{0x3f, 1}, Drop), wasm.MultiMemory},
		{"load from a second memory", body(I32Const(0), Op{0x28, 0x42, 1, 0}, Drop), wasm.MultiMemory},
		{"data for a second memory", func(m *Module) { m.DataRaw([]byte{2, 1, 0x41, 0, 0x0b, 0}) }, wasm.MultiMemory},
		{"imported memory", func(m *Module) { m.ImportRaw("env", "memory", KindMemory, []byte{0, 1}) }, wasm.ImportKind},
		{"imported table", func(m *Module) { m.ImportRaw("env", "table", KindTable, []byte{FuncRef, 0, 1}) }, wasm.ImportKind},
		{"imported global", func(m *Module) { m.ImportRaw("env", "g", KindGlobal, []byte{I64, 1}) }, wasm.ImportKind},
		{"empty memory section", raw(SecMemory, 0), wasm.NoMemory},
		{"unknown instruction", body(Op{0x27}), wasm.UnknownInstruction},
		{"unknown instruction after the prefix", body(Op{0xfc, 18}), wasm.UnknownInstruction},
		{"long form of a prefixed instruction", body(I32Const(0), I32Const(0), I32Const(0), Op{0xfc, 0x8b, 0, 0}), wasm.UnknownInstruction},
		{"extended constant expression", func(m *Module) { m.Global(I32, false, Code(I32Const(1), I32Const(2), I32Add)) }, wasm.ConstantExpr},
		{"constant expression with a global", func(m *Module) {
			m.Global(I32, false, I32Const(1))
			m.Global(I32, false, GlobalGet(0))
		}, wasm.ConstantExpr},

		// References to what the rewriter adds. They would be valid in the output.
		{"global.get of the slice", body(GlobalGet(0), Drop), wasm.IndexRange},
		{"global.set of the slice", body(I64Const(1<<60), GlobalSet(0)), wasm.IndexRange},
		{"global.set of the rest", body(I64Const(1<<60), GlobalSet(1)), wasm.IndexRange},
		{"global.set of the depth", body(I64Const(1<<60), GlobalSet(2)), wasm.IndexRange},
		{"global.set beyond original ones", func(m *Module) {
			m.Global(I32, true, I32Const(0))
			m.ExportFunc("f", none, none, none, I64Const(1<<60), GlobalSet(2))
		}, wasm.IndexRange},
		{"global.set by a padded index", body(I64Const(1<<60), Op{0x24, 0x80, 0x80, 0x80, 0x80, 0}), wasm.IndexRange},
		{"global.set in dead code", body(Unreachable, GlobalSet(0)), wasm.IndexRange},
		{"export of the slice", func(m *Module) { m.Export("g", KindGlobal, 0) }, wasm.IndexRange},
		{"export by a reserved name", func(m *Module) { m.Export(fuel.ReservedPrefix+"x", KindMemory, 0) }, wasm.Reserved},
		{"call of refill", body(Call(1)), wasm.IndexRange},
		{"reference to refill", body(RefFunc(1), Drop), wasm.IndexRange},
		{"refill in a global", func(m *Module) { m.Global(FuncRef, false, RefFunc(0)) }, wasm.IndexRange},
		{"export of refill", func(m *Module) { m.Export("f", KindFunc, 0) }, wasm.IndexRange},
		{"refill as start function", func(m *Module) { m.Start(0) }, wasm.IndexRange},
		{"refill in a table", func(m *Module) {
			m.Table(FuncRef, 1, 1)
			m.Elem(0, 0)
		}, wasm.IndexRange},
		{"refill in a table by expression", func(m *Module) {
			m.Table(FuncRef, 1, 1)
			m.ElemRaw(slices.Concat([]byte{4}, I32Const(0), End, []byte{1}, RefFunc(0), End))
		}, wasm.IndexRange},
		{"local.get of a check's local", body(LocalGet(0), Drop), wasm.IndexRange},
		{"local.set of a check's local", body(I64Const(1), LocalSet(0)), wasm.IndexRange},
		{"local.tee of a check's local", body(I64Const(1), LocalTee(0), Drop), wasm.IndexRange},
		{"type of refill for a block", body(Block(FuncType(1))), wasm.IndexRange},
		{"type of refill for a call", func(m *Module) {
			m.Table(FuncRef, 1, 1)
			m.ExportFunc("f", none, none, none, I32Const(0), CallIndirect(1, 0))
		}, wasm.IndexRange},
		{"type of refill for a function", func(m *Module) { m.FuncRaw(0, Code(Op{0}, End)) }, wasm.IndexRange},
		{"type of refill for an import", func(m *Module) { m.ImportRaw("env", "f", KindFunc, []byte{0}) }, wasm.IndexRange},

		// Counts and sizes.
		{"locals of a function", func(m *Module) {
			m.FuncRaw(m.Type(none, none), slices.Concat([]byte{1}, U32(10_001), []byte{I64}, End))
		}, wasm.Limit},
		{"locals that overflow", func(m *Module) {
			m.FuncRaw(m.Type(none, none), slices.Concat([]byte{2}, U32(1<<32-1), []byte{I64, 1, I64}, End))
		}, wasm.Limit},
		{"locals of all functions", func(m *Module) {
			for range 1000 {
				m.FuncRaw(m.Type(none, none), slices.Concat([]byte{1}, U32(9_999), []byte{I64}, End))
			}
		}, wasm.Limit},
		{"size of a function", body(Repeat(1<<21, Nop)), wasm.Limit},
		{"blocks of a function", body(Repeat(6000, Loop(Void))), wasm.Limit},
		{"branches of a function", body(Repeat(33_000, I32Const(0), BrIf(0))), wasm.Limit},
		{"blocks of all functions", func(m *Module) {
			for range 10 {
				m.Func(none, none, none, Repeat(15_000, Block(Void)))
			}
		}, wasm.Limit},
		{"number of types", raw(SecType, U32(1<<31)...), wasm.Limit},
		{"number of globals", raw(SecGlobal, U32(1<<31)...), wasm.Limit},
		{"number of data segments", raw(SecData, U32(1<<31)...), wasm.Limit},
		{"number of parameters", raw(SecType, slices.Concat([]byte{1, 0x60}, U32(1001), make([]byte, 1001), []byte{0})...), wasm.Limit},
		{"table size", func(m *Module) { m.Table(FuncRef, 1<<20, NoMax) }, wasm.Limit},
		{"functions beyond the section", raw(SecFunction, U32(1000)...), wasm.Malformed},
		{"exports beyond the section", raw(SecExport, U32(1000)...), wasm.Malformed},

		// Malformed modules.
		{"bodies without functions", raw(SecCode, 1, 2, 0, 0x0b), wasm.Malformed},
		{"functions without bodies", func(m *Module) { m.Type(none, none); m.Raw(SecFunction, []byte{1, 0}) }, wasm.Malformed},
		{"section longer than its content", raw(SecGlobal, 0, 0), wasm.Malformed},
		{"empty section", raw(SecGlobal), wasm.Malformed},
		{"code after the end", body(End, Nop), wasm.Malformed},
		{"no end", func(m *Module) { m.FuncRaw(m.Type(none, none), []byte{0, 0x01}) }, wasm.Malformed},
		{"empty body", func(m *Module) { m.FuncRaw(m.Type(none, none), nil) }, wasm.Malformed},
		{"else without if", body(Block(Void, Else)), wasm.Malformed},
		{"else twice", body(I32Const(0), If(Void, Else, Else)), wasm.Malformed},
		{"label beyond the function", body(Br(1)), wasm.IndexRange},
		{"label beyond the function in a table", body(I32Const(0), BrTable(0, 1)), wasm.IndexRange},
		{"branch table beyond the body", body(I32Const(0), Op{0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f}), wasm.Malformed},
		{"number too long", body(Op{0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, Drop), wasm.Malformed},
		{"index too long", body(Op{0x0c, 0x80, 0x80, 0x80, 0x80, 0x80, 0}), wasm.Malformed},
		{"index too large", body(Op{0x0c, 0x80, 0x80, 0x80, 0x80, 0x10}), wasm.Malformed},
		{"truncated constant", body(Op{0x44, 1, 2}), wasm.Malformed},
		{"block type of several bytes", body(Op{0x02, 0xc0, 0x7f}, End), wasm.Malformed},
		{"name that is not UTF-8", func(m *Module) { m.Export("\xff", KindMemory, 0) }, wasm.Malformed},
		{"memory.init without data count", func(m *Module) {
			m.DataRaw([]byte{1, 0})
			m.Func(none, none, none, I32Const(0), I32Const(0), I32Const(0), MemoryInit(0))
		}, wasm.Malformed},
		{"data.drop beyond the segments", func(m *Module) {
			m.PassiveData(nil)
			m.Func(none, none, none, DataDrop(1))
		}, wasm.IndexRange},
		{"data count that disagrees", func(m *Module) { m.Raw(SecDataCount, []byte{3}) }, wasm.Malformed},
		{"data segment beyond the section", func(m *Module) { m.DataRaw([]byte{0, 0x41, 0, 0x0b, 9, 1}) }, wasm.Malformed},
		{"offset that overflows", func(m *Module) { m.DataRaw([]byte{0, 0x41, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b, 0}) }, wasm.Malformed},
		{"offset of another type", func(m *Module) { m.DataRaw([]byte{0, 0x42, 0, 0x0b, 0}) }, wasm.Malformed},
		{"maximum below minimum", raw(SecMemory, 1, 1, 2, 1), wasm.Malformed},
		{"memory of more than 4 GiB", raw(SecMemory, 1, 0, 0x81, 0x80, 4), wasm.Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reason, err := rewriteError(t, Page(tt.build))
			if reason != tt.want {
				t.Errorf("reason %v (%v), want %v", reason, err, tt.want)
			}
		})
	}
}

func TestRejectsModulesWithoutMemory(t *testing.T) {
	var m Module
	m.ExportFunc("f", none, none, none)
	if reason, err := rewriteError(t, m.Bytes()); reason != wasm.NoMemory {
		t.Errorf("reason %v: %v", reason, err)
	}
}

func TestRejectsSectionsOutOfOrder(t *testing.T) {
	typ := Section(SecType, []byte{0})
	mem := Section(SecMemory, []byte{1, 0, 1})
	glob := Section(SecGlobal, []byte{0})
	tests := []struct {
		name   string
		module []byte
		want   wasm.Reason
	}{
		{"in order", slices.Concat(Header, typ, mem, glob), 0},
		{"custom between", slices.Concat(Header, Section(0, []byte("\x01a")), typ, Section(0, []byte("\x01bxyz")), mem), 0},
		{"malformed custom", slices.Concat(Header, typ, Section(0, []byte{200}), mem), wasm.Malformed},
		{"out of order", slices.Concat(Header, mem, typ), wasm.Malformed},
		{"twice", slices.Concat(Header, typ, typ, mem), wasm.Malformed},
		{"data count after code", slices.Concat(Header, mem, Section(SecCode, []byte{0}), Section(SecDataCount, []byte{0})), wasm.Malformed},
		{"data count before code", slices.Concat(Header, mem, Section(SecDataCount, []byte{0}), Section(SecCode, []byte{0})), 0},
		{"unknown", slices.Concat(Header, typ, Section(14, nil), mem), wasm.UnknownSection},
		{"truncated size", slices.Concat(Header, []byte{SecType, 0x80}), wasm.Malformed},
		{"beyond the module", slices.Concat(Header, []byte{SecType, 100, 0}), wasm.Malformed},
		{"no header", []byte("\x00asm"), wasm.Malformed},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), wasm.Malformed},
		{"empty", nil, wasm.Malformed},
		{"too large", append(slices.Clone(Header), make([]byte, 33<<20)...), wasm.Limit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if reason, err := rewriteError(t, tt.module); reason != tt.want {
				t.Errorf("reason %v (%v), want %v", reason, err, tt.want)
			}
		})
	}
}

func TestErrorNamesPosition(t *testing.T) {
	module := Page(func(m *Module) {
		m.Import("env", "double", i64, i64)
		m.Func(none, none, none)
		m.Func(none, none, none, Nop, Nop, Op{0xfd, 0})
	})
	_, e := rewriteError(t, module)
	if e == nil || e.Section != "code" || e.Function != 2 || module[e.Offset] != 0xfd {
		t.Fatalf("%+v", e)
	}
	for _, part := range []string{"code section", "function 2", "SIMD"} {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("error %q does not contain %q", e.Error(), part)
		}
	}
}

func TestRejectsOwnOutput(t *testing.T) {
	out := Meter(t, Page(func(m *Module) { m.ExportFunc("f", none, none, none) }))
	if reason, err := rewriteError(t, out); reason != wasm.Reserved {
		t.Errorf("reason %v: %v", reason, err)
	}
}
