package engine_test

import (
	"context"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// FuzzGuest loads arbitrary bytes as a module. They must be rejected, or every function can be called and ends.
func FuzzGuest(f *testing.F) {
	for _, m := range [][]byte{
		guest().Bytes(), endless().Bytes(), recursive().Bytes(), exponential().Bytes(), growing().Bytes(), floats().Bytes(),
		wasiCaller().Bytes(), aborting("text").Bytes(), counting().Bytes(), indirect(nil, 0).Bytes(),
	} {
		f.Add(m)
	}
	e := newEngine(f, engine.Options{MemoryPages: 64})
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := e.Compile(context.Background(), "fuzz", wasm)
		if err != nil {
			return
		}
		defer m.Close()
		for name, s := range m.Exports() {
			i, err := m.Instantiate(context.Background(), nil, 100_000)
			if err != nil {
				return
			}
			if fn, ok := i.Func(name); ok {
				if _, err := i.Call(fn, 100_000, make([]uint64, len(s.Params))...); err != nil && i.Alive() {
					t.Errorf("%q failed, but the instance is alive: %v", name, err)
				}
				if used := i.Used(); used < 0 || used > 100_000 {
					t.Errorf("%q used %d units, want 0 to 100000", name, used)
				}
			}
			i.Close()
		}
	})
}
