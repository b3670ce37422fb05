package engine

import (
	"github.com/tetratelabs/wazero/experimental"
)

// wasmPage is the size of a WebAssembly page in bytes.
const wasmPage = 64 << 10

// linearMemory is the memory of one instance, outside of the Go heap where the platform can do that: instances would
// otherwise be most of the heap that paces the collector, and every growth would copy. It never moves.
//
// wazero gets a larger limit than the engine's own, so that a growth beyond the engine's is refused and recorded here:
// that distinguishes a guest that ran out of memory from one that panicked.
//
// It belongs to its instance and is as little safe for concurrent use.
type linearMemory struct {
	region  region
	data    *memoryImage // what the memory begins with; nil: zeros
	limit   uint64       // bytes the guest may have
	refused bool         // a growth was refused since the call began
	freed   bool
}

var _ experimental.LinearMemory = (*linearMemory)(nil)

// Allocate implements experimental.MemoryAllocator for the one memory that an instance may have. wazero ignores a nil
// answer of Reallocate here and panics, so the reservation is made before, by newLinearMemory.
func (m *linearMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// newLinearMemory reserves room for limit bytes; none of it is usable or counted yet.
func newLinearMemory(limit uint64, data *memoryImage) (*linearMemory, error) {
	r, err := reserve(limit)
	if err != nil {
		return nil, err
	}
	return &linearMemory{region: r, data: data, limit: limit}, nil
}

// Reallocate makes the first size bytes usable and returns them; what is new in them is zero, except the first time, when data
// is there.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size > m.limit || m.freed || m.region.commit(size) != nil {
		m.refused = true
		return nil
	}
	if m.data != nil {
		if m.data.size() > size || m.data.mapInto(&m.region) != nil {
			m.refused = true
			return nil
		}
		m.data = nil
	}
	return m.region.bytes(size)
}

// Free frees the memory, once. Slices of it must not be touched afterwards.
func (m *linearMemory) Free() {
	if !m.freed {
		m.freed = true
		m.region.release()
	}
}
