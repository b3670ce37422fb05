package main

import (
	"encoding/binary"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// state is what one call leaves for the next of the same answer. Most answers need none of it.
type state struct {
	emulate bool   // the forced tool's input is the answer's text
	whole   bool   // that input came with the beginning of its block
	block   int32  // the key of the block that the members below are about
	from    int64  // the text's length where that block began, in code points
	cited   []byte // its citations, as the elements of an array
}

// noBlock is the key of a block that there is not.
const noBlock = -1

const (
	stateHead = 1 + 4 + 8
	maxCited  = abi.MaxState - stateHead
)

// loadState reads the state. Its slices are valid during the call.
func loadState(a *provider.Answer) state {
	p := a.State()
	if len(p) < stateHead {
		return state{block: noBlock}
	}
	return state{
		emulate: p[0]&1 != 0,
		whole:   p[0]&2 != 0,
		block:   int32(binary.LittleEndian.Uint32(p[1:])),
		from:    int64(binary.LittleEndian.Uint64(p[5:])),
		cited:   p[stateHead:],
	}
}

func (s *state) keep(a *provider.Answer) {
	p := make([]byte, stateHead, stateHead+len(s.cited))
	if s.emulate {
		p[0] |= 1
	}
	if s.whole {
		p[0] |= 2
	}
	binary.LittleEndian.PutUint32(p[1:], uint32(s.block))
	binary.LittleEndian.PutUint64(p[5:], uint64(s.from))
	a.SetState(append(p, s.cited...))
}
