package bedrock

import "github.com/sluice-gateway/sluice/sdk/provider"

// state is kept between the calls for one response. Most events do not need it.
type state struct {
	family        family
	emulate       bool   // the forced tool's input becomes the response's text
	stopped       bool   // messageStop was received
	block         int32  // index of the forced tool's block, noBlock before its start
	from          int64  // length of the text, in code points, at the start of that block
	redactedBlock int32  // index of the block that rest belongs to
	rest          []byte // last bytes of a redacted block, too few for a group of base64
}

// noBlock is an index that no block has.
const noBlock = -1

// stateHead is the length of the encoded state without rest.
const stateHead = 1 + 1 + 4 + 8 + 4

// loadState reads the state. Its slices are valid until the call returns.
func loadState(a *provider.Answer) state {
	p := a.State()
	if len(p) < stateHead {
		return state{block: noBlock}
	}
	return state{
		family: family(p[0]), emulate: p[1]&1 != 0, stopped: p[1]&2 != 0,
		block: int32(loadUint(p[2:6])), from: int64(loadUint(p[6:14])), redactedBlock: int32(loadUint(p[14:18])), rest: p[stateHead:],
	}
}

func (s *state) save(a *provider.Answer) {
	var flags byte
	if s.emulate {
		flags |= 1
	}
	if s.stopped {
		flags |= 2
	}
	p := append(make([]byte, 0, stateHead+len(s.rest)), byte(s.family), flags)
	p = appendUint(p, uint64(uint32(s.block)), 4)
	p = appendUint(p, uint64(s.from), 8)
	p = appendUint(p, uint64(uint32(s.redactedBlock)), 4)
	a.SetState(append(p, s.rest...))
}

// loadUint reads a little-endian number.
func loadUint(p []byte) (n uint64) {
	for i := len(p) - 1; i >= 0; i-- {
		n = n<<8 | uint64(p[i])
	}
	return n
}

func appendUint(dst []byte, n uint64, bytes int) []byte {
	for range bytes {
		dst = append(dst, byte(n))
		n >>= 8
	}
	return dst
}
