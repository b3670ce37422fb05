package main

import (
	"encoding/binary"

	"github.com/sluice-gateway/sluice/sdk/provider"
)

// state is what one call leaves for the next of the same answer. Most answers need none of it.
type state struct {
	emulate bool  // the forced tool's input is the answer's text
	from    int64 // the text's length where the block at hand began, in code points
}

// stateSize is the length of a state: whether it is emulated, then from.
const stateSize = 9

func loadState(a *provider.Answer) (s state) {
	p := a.State()
	if len(p) != stateSize {
		return s
	}
	s.emulate = p[0] == 1
	s.from = int64(binary.LittleEndian.Uint64(p[1:]))
	return s
}

func (s state) keep(a *provider.Answer) {
	var p [stateSize]byte
	if s.emulate {
		p[0] = 1
	}
	binary.LittleEndian.PutUint64(p[1:], uint64(s.from))
	a.SetState(p[:])
}
