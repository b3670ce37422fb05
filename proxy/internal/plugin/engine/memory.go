package engine

import (
	"github.com/tetratelabs/wazero/experimental"
)

// wasmPage is the size of a WebAssembly page in bytes.
const wasmPage = 64 << 10

// linearMemory is the memory of one instance. On Unix it is outside of the Go heap and never moves. On the heap,
// instances would make up most of what the garbage collector paces itself by, and every growth would copy.
//
// It enforces the limit of the instance's memory, by refusing to grow. wazero is configured with a larger limit, so
// that a refusal is recorded here, which distinguishes a guest that ran out of memory from one that panicked.
//
// Like its instance, it is not safe for concurrent use.
type linearMemory struct {
	region  region
	data    *memoryImage // initial content; nil for zeros, and once it is mapped
	limit   uint64       // maximum size in bytes
	refused bool         // a growth was refused since the call began
	freed   bool
}

var _ experimental.LinearMemory = (*linearMemory)(nil)

// Allocate implements experimental.MemoryAllocator for the one memory that an instance may have. wazero would panic if
// the first Reallocate returned nil, so newLinearMemory has already reserved the address space.
func (m *linearMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// newLinearMemory reserves address space for limit bytes. None of it is usable, or counts as used memory, yet.
func newLinearMemory(limit uint64, data *memoryImage) (*linearMemory, error) {
	r, err := reserve(limit)
	if err != nil {
		return nil, err
	}
	return &linearMemory{region: r, data: data, limit: limit}, nil
}

// Reallocate implements experimental.LinearMemory: it makes the first size bytes usable and returns them. Added bytes
// are zero, except that the first call maps the initial content.
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
