package anthropic

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// state is kept between the calls for one response. Most responses need none.
type state struct {
	emulate bool   // the forced tool's input is the response's text
	whole   bool   // the forced tool's input was complete in the start of its block
	stopped bool   // the stop reason has been read
	block   int32  // key of the block that the fields below describe
	from    int64  // length of the text, in code points, at the start of that block
	cited   []byte // citations of the block, as comma-separated elements of an array
}

// noBlock is a key that no block has.
const noBlock = -1

const (
	stateHead    = 1 + 4 + 8
	maxCitations = abi.MaxState - stateHead
)

// loadState reads the state. Its slices are valid until the call returns.
func loadState(a *provider.Answer) state {
	p := a.State()
	if len(p) < stateHead {
		return state{block: noBlock}
	}
	return state{
		emulate: p[0]&1 != 0,
		whole:   p[0]&2 != 0,
		stopped: p[0]&4 != 0,
		block:   int32(load(p[1:5])),
		from:    int64(load(p[5:13])),
		cited:   p[stateHead:],
	}
}

func (s *state) save(a *provider.Answer) {
	p := make([]byte, 0, stateHead+len(s.cited))
	flags := byte(0)
	if s.emulate {
		flags |= 1
	}
	if s.whole {
		flags |= 2
	}
	if s.stopped {
		flags |= 4
	}
	p = store(append(p, flags), uint64(uint32(s.block)), 4)
	p = store(p, uint64(s.from), 8)
	a.SetState(append(p, s.cited...))
}

// load reads a little-endian number of up to eight bytes. encoding/binary would add reflection to the module, which is
// a tenth of its size.
func load(p []byte) (n uint64) {
	for i, c := range p {
		n |= uint64(c) << (8 * i)
	}
	return n
}

func store(p []byte, n uint64, size int) []byte {
	for range size {
		p = append(p, byte(n))
		n >>= 8
	}
	return p
}
