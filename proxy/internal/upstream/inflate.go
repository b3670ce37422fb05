package upstream

import (
	"compress/gzip"
	"errors"
	"io"
	"iter"
)

// A gzip body larger than inflateFree may be at most inflateRatio times as long as its compressed form. Deflate's
// maximum is 1032, and text stays far below 100.
const (
	inflateFree  = 1 << 20
	inflateRatio = 200
)

var errInflateRatio = errors.New("gzip compression ratio too high")

// inflater decodes a gzip body that is pushed into it. The standard decoder pulls its input, and cannot resume after
// its source has returned an error, such as a pause. It therefore runs as a coroutine that is suspended whenever it
// needs input, which needs no scheduler, channels or allocations. Providers are asked not to compress, so this is rare.
type inflater struct {
	next func() ([]byte, bool)
	stop func()

	in  []byte // input, in the connection's buffer
	eof bool   // there is no input after in
	fed int64  // bytes of input so far
	err error  // error of the decoder; io.EOF at its end
}

func newInflater() *inflater {
	f := &inflater{}
	f.next, f.stop = iter.Pull(f.decode)
	return f
}

// decode yields pieces of the decoded body, and nil when it needs input.
func (f *inflater) decode(yield func([]byte) bool) {
	src := &inflateSource{f: f, yield: yield}
	z, err := gzip.NewReader(src)
	if err != nil {
		f.err = err
		return
	}
	buf := make([]byte, 4<<10)
	total := int64(0)
	for {
		n, err := z.Read(buf)
		if total += int64(n); total > inflateFree && total > inflateRatio*f.fed {
			err, n = errInflateRatio, 0
		}
		if n > 0 && !yield(buf[:n]) {
			return
		}
		if err != nil {
			f.err = err
			return
		}
	}
}

// inflateSource is the decoder's input. It is an io.ByteReader so that the decoder reads no more than it needs.
type inflateSource struct {
	f     *inflater
	yield func([]byte) bool
}

// wait suspends the coroutine until there is input.
func (s *inflateSource) wait() error {
	for len(s.f.in) == 0 {
		if s.f.eof {
			return io.EOF
		}
		if !s.yield(nil) {
			return io.ErrClosedPipe
		}
	}
	return nil
}

func (s *inflateSource) Read(p []byte) (int, error) {
	if err := s.wait(); err != nil {
		return 0, err
	}
	n := copy(p, s.f.in)
	s.f.in = s.f.in[n:]
	return n, nil
}

func (s *inflateSource) ReadByte() (byte, error) {
	if err := s.wait(); err != nil {
		return 0, err
	}
	b := s.f.in[0]
	s.f.in = s.f.in[1:]
	return b, nil
}

// take returns decoded bytes, valid until the next call. It returns none if feed must be called or eof be set first,
// and returns an error once the decoder has ended.
func (f *inflater) take() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	out, ok := f.next()
	if !ok {
		return nil, f.err
	}
	return out, nil
}

// feed sets the next input. The previous one must have been used up.
func (f *inflater) feed(p []byte) {
	f.in = p
	f.fed += int64(len(p))
}
