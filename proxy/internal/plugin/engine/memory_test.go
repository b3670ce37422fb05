package engine

import (
	"bytes"
	"testing"
)

func TestLinearMemoryGrowsInPlace(t *testing.T) {
	const limit = 64 * wasmPage
	m, err := newLinearMemory(limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Reallocate(wasmPage)
	if len(p) != wasmPage || !bytes.Equal(p, make([]byte, wasmPage)) {
		t.Fatalf("%d bytes, want one page of zeros", len(p))
	}
	p[0], p[wasmPage-1] = 1, 2
	for pages := uint64(2); pages <= 64; pages++ {
		p = m.Reallocate(pages * wasmPage)
		if uint64(len(p)) != pages*wasmPage || cap(p) < len(p) {
			t.Fatalf("%d bytes after growth to %d pages", len(p), pages)
		}
		if !bytes.Equal(p[(pages-1)*wasmPage:], make([]byte, wasmPage)) {
			t.Fatalf("page %d is not zero", pages)
		}
	}
	if p[0] != 1 || p[wasmPage-1] != 2 {
		t.Error("growth lost the content of the memory")
	}
	if m.refused {
		t.Error("growth within the limit was refused")
	}
	if m.Reallocate(limit+1) != nil || !m.refused {
		t.Error("growth beyond the limit was not refused")
	}
	m.Free()
	m.Free()
	if m.Reallocate(wasmPage) != nil {
		t.Error("freed memory was reallocated")
	}
}

func TestEmptyLinearMemory(t *testing.T) {
	m, err := newLinearMemory(wasmPage, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if p := m.Reallocate(0); p == nil || len(p) != 0 {
		t.Errorf("got %v, want an empty slice that is not nil", p)
	}
}
