package fuel_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/wasmtest"
)

// TestHollow: of a hollow module everything is as it was, but every call traps.
func TestHollow(t *testing.T) {
	ctx := context.Background()
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			rewritten, _, err := fuel.Rewrite(p.module(), fuel.Options{KeepNames: true})
			if err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(rewritten)
			hollow, err := fuel.Hollow(rewritten)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(before, rewritten) {
				t.Error("the module was changed")
			}
			whole, other := sections(t, rewritten), sections(t, hollow)
			for id, content := range whole {
				if id != SecCode && !slices.Equal(content, other[id]) {
					t.Errorf("section %d differs", id)
				}
			}
			if len(other) != len(whole) {
				t.Errorf("%d sections of %d", len(other), len(whole))
			}
			rt := newRuntimeWith(t, wazero.NewRuntimeConfigInterpreter())
			c, err := rt.CompileModule(ctx, hollow)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(ctx)
			if again, err := fuel.Hollow(hollow); err != nil || !slices.Equal(again, hollow) {
				t.Errorf("hollow again it is another one: %v", err)
			}
		})
	}
}

func TestHollowOfNoModule(t *testing.T) {
	rewritten, _, err := fuel.Rewrite(programs[0].module(), fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range rewritten {
		if _, err := fuel.Hollow(rewritten[:n:n]); err != nil {
			if e := (*fuel.Error)(nil); !errors.As(err, &e) {
				t.Fatalf("%d bytes: error is a %T", n, err)
			}
		}
	}
}

// sections returns the content of a module's sections by their number.
func sections(t *testing.T, wasm []byte) map[byte][]byte {
	t.Helper()
	m := make(map[byte][]byte)
	for p := 8; p < len(wasm); {
		id := wasm[p]
		size, n := binary.Uvarint(wasm[p+1:])
		content := wasm[p+1+n:][:size]
		m[id] = content
		p += 1 + n + int(size)
	}
	return m
}
