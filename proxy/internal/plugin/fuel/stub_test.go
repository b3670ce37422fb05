package fuel_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// TestStub checks that a stub module is valid and differs from its module only in the code.
func TestStub(t *testing.T) {
	ctx := context.Background()
	for _, p := range Programs {
		t.Run(p.Name, func(t *testing.T) {
			rewritten, _, err := fuel.Rewrite(p.Module(), fuel.Options{})
			if err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(rewritten)
			stub, err := wasm.Stub(rewritten)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(before, rewritten) {
				t.Error("the module was changed")
			}
			want, got := sections(t, rewritten), sections(t, stub)
			for id, content := range want {
				if id != SecCode && !slices.Equal(content, got[id]) {
					t.Errorf("section %d differs", id)
				}
			}
			if len(got) != len(want) {
				t.Errorf("got %d sections, want %d", len(got), len(want))
			}
			rt := NewInterpreter(t)
			c, err := rt.CompileModule(ctx, stub)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(ctx)
			if again, err := wasm.Stub(stub); err != nil || !slices.Equal(again, stub) {
				t.Errorf("the stub of a stub differs: %v", err)
			}
		})
	}
}

func TestStubOfTruncatedModule(t *testing.T) {
	rewritten, _, err := fuel.Rewrite(Programs[0].Module(), fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range rewritten {
		if _, err := wasm.Stub(rewritten[:n:n]); err != nil {
			if e := (*wasm.Error)(nil); !errors.As(err, &e) {
				t.Fatalf("%d bytes: error is a %T", n, err)
			}
		}
	}
}

// sections returns the content of a module's sections by ID.
func sections(t *testing.T, module []byte) map[byte][]byte {
	t.Helper()
	m := make(map[byte][]byte)
	for p := 8; p < len(module); {
		id := module[p]
		size, n := binary.Uvarint(module[p+1:])
		content := module[p+1+n:][:size]
		m[id] = content
		p += 1 + n + int(size)
	}
	return m
}
