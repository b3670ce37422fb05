package fuel_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
)

func TestGoGuestDoesTheSameAfterRewriting(t *testing.T) {
	wasm := buildGoGuest(t)
	before := runGoGuest(t, wasm)
	after := runGoGuest(t, rewrite(t, wasm))
	text := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog and The Fox is quick ", 200))
	for _, i := range []instance{before, after} {
		at := i.call(t, bigBudget, "address")
		if at.err != nil || !i.Memory().Write(uint32(at.results[0]), text) {
			t.Fatalf("write the input: %v", at.err)
		}
	}
	calls := []struct {
		name string
		args []uint64
	}{
		{"digest", []uint64{uint64(len(text))}},
		{"words", []uint64{uint64(len(text))}},
		{"digest", []uint64{64}},
		{"garbage", []uint64{20_000}},
		{"recurse", []uint64{1000}},
		{"twice", []uint64{21}},
		{"crash", []uint64{7}},
		{"digest", []uint64{1 << 16}},
	}
	for _, c := range calls {
		want := before.call(t, bigBudget, c.name, c.args...)
		got := after.call(t, bigBudget, c.name, c.args...)
		if want.err != nil || got.err != nil {
			t.Fatalf("%s: %v, rewritten: %v", c.name, want.err, got.err)
		}
		if want.results[0] != got.results[0] {
			t.Errorf("%s: %d, rewritten: %d", c.name, want.results[0], got.results[0])
		}
		if got.used <= 0 {
			t.Errorf("%s: used %d units", c.name, got.used)
		}
		t.Logf("%s: %d units", c.name, got.used)
	}
	if !bytes.Equal(memoryOf(t, before), memoryOf(t, after)) {
		t.Error("memory differs")
	}
}

// TestGoGuestsAreShortened notices when Go's compiler makes something else than what is looked for.
func TestGoGuestsAreShortened(t *testing.T) {
	_, info, err := fuel.Rewrite(buildGoGuest(t), fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The guest and what it imports have some 60 functions, apart from the runtime.
	if info.Copies < 10 || info.Copies > info.Functions/2 {
		t.Errorf("%d of %d functions are copied", info.Copies, info.Functions)
	}
	if info.Shared < 10*info.Functions {
		t.Errorf("%d accesses share an address, in %d functions", info.Shared, info.Functions)
	}
	_, info, err = fuel.Rewrite(buildGoGuest(t), fuel.Options{KeepNames: true})
	if err != nil || info.Copies != 0 {
		t.Errorf("%d functions are copied where their names are wanted, %v", info.Copies, err)
	}
}

func TestSegmentsOfAGoGuestAreMerged(t *testing.T) {
	_, info, err := fuel.Rewrite(buildGoGuest(t), fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d functions, %d segments became %d, %d bytes became %d",
		info.Functions, info.Segments, info.SegmentsMerged, info.Size, info.SizeRewritten)
	if info.Segments < 10_000 || info.SegmentsMerged > 100 {
		t.Errorf("%d segments became %d", info.Segments, info.SegmentsMerged)
	}
}
