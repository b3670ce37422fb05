package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// progress is the state that is kept between the events of a response. It is decoded only for content other than text,
// so that plain text is not slowed down.
//
// The blocks of a candidate (thoughts, texts and calls) are numbered in the order of their arrival; the number is the
// key of a thought or a call. The length of the content shows whether there was a text in between.
type progress struct {
	a      *provider.Answer // for the current call
	list   []candidateState
	loaded bool
	dirty  bool
	ending bool // a candidate has finished in this call

	// Buffers for one call.
	buffer, text, paths []byte
	steps, target       []step
}

// candidateState is the state of one candidate.
type candidateState struct {
	choice     int32
	flags      flag
	next       int32  // number of the next block
	textLength int64  // length of the content before the latest block that is not a text
	key        int32  // key of the call whose arguments are being streamed
	path       []byte // path of the latest value in these arguments, encoded by packSteps
}

// flag is a boolean property of a candidate.
type flag uint8

const (
	finished flag = 1 << iota // the candidate has finished
	called                    // the candidate has made a call
	thinking                  // the latest block is a thought, which may continue
	calling                   // the arguments of a call are being streamed
	written                   // these arguments have started
	quoted                    // their latest value is an unfinished string
	signed                    // this call has its signature
)

func (s *candidateState) has(f flag) bool { return s.flags&f != 0 }

// reset prepares for a call.
func (p *progress) reset(a *provider.Answer) {
	p.a, p.list, p.paths = a, p.list[:0], p.paths[:0]
	p.loaded, p.dirty, p.ending = false, false, false
}

// lookup returns the state of a candidate, nil if there is none. The pointer is valid until the next addCandidate.
func (p *progress) lookup(choice int32) *candidateState {
	if !p.loaded {
		p.loaded = true
		p.unpack(p.a.State())
	}
	for i := range p.list {
		if p.list[i].choice == choice {
			return &p.list[i]
		}
	}
	return nil
}

// addCandidate adds the state of a new candidate.
func (p *progress) addCandidate(choice int32) *candidateState {
	p.dirty = true
	p.list = append(p.list, candidateState{choice: choice})
	return &p.list[len(p.list)-1]
}

// lookupOrAdd returns the state of a candidate and adds it if needed.
func (p *progress) lookupOrAdd(choice int32) *candidateState {
	if s := p.lookup(choice); s != nil {
		return s
	}
	return p.addCandidate(choice)
}

// countText counts a text block if text was added since the latest other block.
func (s *candidateState) countText(length int64) {
	if length > s.textLength {
		s.textLength = length
		s.next++
	}
}

// newBlock returns the key of a new block.
func (p *progress) newBlock(s *candidateState) (int32, error) {
	key := s.next
	if key >= abi.MaxKeys {
		return 0, badResponse("The provider's response has too many parts.")
	}
	s.next++
	s.flags &^= thinking
	p.dirty = true
	return key, nil
}

// callKey returns the key of a new call.
func (p *progress) callKey(a *provider.Answer, s *candidateState) (int32, error) {
	s.countText(a.TextLength(s.choice))
	return p.newBlock(s)
}

// thoughtKey returns the key of the thought that a piece belongs to: the latest block, if it is a thought that may
// continue, or else a new block.
func (p *progress) thoughtKey(a *provider.Answer, choice int32) (int32, error) {
	s := p.lookupOrAdd(choice)
	length := a.TextLength(choice)
	if s.has(thinking) && length == s.textLength {
		return s.next - 1, nil
	}
	s.countText(length)
	key, err := p.newBlock(s)
	s.flags |= thinking
	return key, err
}

// endThought ends the latest thought, after its signature.
func (p *progress) endThought(choice int32) {
	if s := p.lookupOrAdd(choice); s.has(thinking) {
		s.flags &^= thinking
		p.dirty = true
	}
}

// signatureKey returns the key for the signature of the text that was just emitted, or of an empty text.
func (p *progress) signatureKey(a *provider.Answer, choice int32, onText bool) (int32, error) {
	s := p.lookupOrAdd(choice)
	length := a.TextLength(choice)
	if onText {
		s.textLength = length // the text itself is the block
	} else {
		s.countText(length) // the signature is a block of its own
	}
	return p.newBlock(s)
}

// markFinished records that a candidate has finished.
func (p *progress) markFinished(choice int32) {
	p.lookupOrAdd(choice).flags |= finished
	p.dirty, p.ending = true, true
}

// allFinished reports whether every candidate seen so far has finished. The first candidate is in the list only if it
// had content other than text.
func (p *progress) allFinished() bool {
	for i := range p.list {
		if !p.list[i].has(finished) {
			return false
		}
	}
	return p.lookup(0) != nil || p.a.TextLength(0) == 0
}

// save stores the state for the next call.
func (p *progress) save() error {
	if !p.dirty {
		return nil
	}
	p.buffer = p.buffer[:0]
	for i := range p.list {
		s := &p.list[i]
		b := append(p.buffer, byte(s.choice), byte(s.flags))
		b = appendCount(b, s.next)
		b = appendCount(b, s.textLength)
		if s.has(calling) {
			b = appendCount(b, s.key)
			b = appendCount(b, len(s.path))
			b = append(b, s.path...)
		}
		p.buffer = b
	}
	if !p.a.SetState(p.buffer) {
		return badResponse("The provider's response holds arguments that are nested too deeply.")
	}
	return nil
}

// unpack decodes the state that save stored.
func (p *progress) unpack(b []byte) {
	for len(b) > 2 {
		s := candidateState{choice: int32(b[0]), flags: flag(b[1])}
		var n int64
		n, b = cutCount(b[2:])
		s.next = int32(n)
		s.textLength, b = cutCount(b)
		if s.has(calling) {
			n, b = cutCount(b)
			s.key = int32(n)
			n, b = cutCount(b)
			s.path, b = b[:n:n], b[n:]
		}
		p.list = append(p.list, s)
	}
}

// appendCount appends a non-negative number with seven bits per byte.
func appendCount[T int | int32 | int64](dst []byte, n T) []byte {
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// cutCount reads a number that appendCount wrote.
func cutCount(b []byte) (n int64, rest []byte) {
	for shift := 0; len(b) > 0; shift += 7 {
		c := b[0]
		b = b[1:]
		n |= int64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	return n, b
}
