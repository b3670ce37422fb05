package upstream

import (
	"bufio"
	"bytes"
	"strings"
	"sync"
)

const (
	maxHeaders = 256 // header lines in one head
	maxInterim = 100 // interim answers before the real one
)

// framing is how a body ends.
type framing uint8

const (
	untilClose framing = iota
	sized
	chunked
	empty // of an answer that has no body whatever its headers say
)

// headScan reads a head line by line as it comes, and refuses what another parser might read differently. What passes
// it has one meaning. It takes up where it stopped when more bytes have come.
type headScan struct {
	at      int // where the next line begins
	seen    int // up to where an LF was looked for
	headers int
	old     bool // HTTP/1.0
	coded   bool // there is a Content-Encoding
	status  int
	framing framing
	length  int64
}

// scan is given the head from its beginning, and more of it each time. done means that p[:s.at] is the whole head. What
// it objects to is told in words that quote nothing.
func (s *headScan) scan(p []byte) (done bool, objection string) {
	const version = "HTTP/1."
	if s.at == 0 && !strings.HasPrefix(version, string(p[:min(len(p), len(version))])) {
		return false, "not HTTP/1"
	}
	for {
		i := bytes.IndexByte(p[s.seen:], '\n')
		if i < 0 {
			s.seen = len(p)
			return false, ""
		}
		end := s.seen + i
		line := p[s.at:end]
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return false, "a line of the head does not end with CRLF"
		}
		line = line[:len(line)-1]
		first := s.at == 0
		s.at, s.seen = end+1, end+1
		switch {
		case first:
			objection = s.statusLine(line)
		case len(line) == 0:
			return true, ""
		default:
			objection = s.headerLine(line)
		}
		if objection != "" {
			return false, objection
		}
	}
}

// statusLine reads "HTTP/1.1 200 OK".
func (s *headScan) statusLine(l []byte) string {
	if len(l) < len("HTTP/1.1 200") || l[7] != '0' && l[7] != '1' || l[8] != ' ' || len(l) > 12 && l[12] != ' ' || !isText(l) {
		return "malformed status line"
	}
	s.old = l[7] == '0'
	for _, c := range l[9:12] {
		if c < '0' || c > '9' {
			return "malformed status line"
		}
		s.status = s.status*10 + int(c-'0')
	}
	if s.status < 100 || s.status > 599 {
		return "status out of range"
	}
	return ""
}

func (s *headScan) headerLine(l []byte) string {
	if s.headers++; s.headers > maxHeaders {
		return "too many headers"
	}
	name, value, ok := bytes.Cut(l, []byte{':'})
	if !ok || !isToken(name) || !isText(value) {
		return "malformed header"
	}
	value = bytes.Trim(value, " \t")
	switch {
	case equalFold(name, "content-length"):
		if s.framing != untilClose {
			return "more than one length"
		}
		if len(value) == 0 || len(value) > 18 {
			return "malformed content-length"
		}
		for _, c := range value {
			if c < '0' || c > '9' {
				return "malformed content-length"
			}
			s.length = s.length*10 + int64(c-'0')
		}
		s.framing = sized
	case equalFold(name, "transfer-encoding"):
		if s.framing != untilClose {
			return "more than one length"
		}
		if s.old {
			return "transfer-encoding in HTTP/1.0"
		}
		if !equalFold(value, "chunked") {
			return "unknown transfer-encoding"
		}
		s.framing = chunked
	case equalFold(name, "content-encoding"):
		if s.coded {
			return "more than one content-encoding"
		}
		s.coded = true
	}
	return ""
}

// headParser is memory for fasthttp's parser, which wants to read from a bufio.Reader that holds the whole head.
type headParser struct {
	src bytes.Reader
	br  *bufio.Reader
}

var headParsers = sync.Pool{New: func() any {
	return &headParser{br: bufio.NewReaderSize(nil, maxHead)}
}}

// parse reads a head that has passed the scan into the connection's header. It reports false where fasthttp reads it
// otherwise than the scan did.
func (c *conn) parse(head []byte, s *headScan) bool {
	p := headParsers.Get().(*headParser)
	p.src.Reset(head)
	p.br.Reset(&p.src)
	err := c.header.Read(p.br)
	left := p.br.Buffered() + p.src.Len()
	p.src.Reset(nil)
	headParsers.Put(p)
	if err != nil || left != 0 || c.header.StatusCode() != s.status {
		return false
	}
	switch s.framing {
	case sized:
		return int64(c.header.ContentLength()) == s.length
	case chunked:
		return c.header.ContentLength() == -1
	}
	return c.header.ContentLength() == -2
}

// readHead reads up to the end of the final head and leaves the header in c.header.
func (c *conn) readHead() (headScan, error) {
	bad := func(objection string) (headScan, error) {
		return headScan{}, &Error{Kind: BadAnswer, Phase: PhaseHead, Reason: objection}
	}
	for range maxInterim + 1 {
		var s headScan
		for {
			done, objection := s.scan(c.buf[c.r:c.w])
			if objection != "" {
				return bad(objection)
			}
			if done {
				break
			}
			if !c.room() {
				return bad("head too long")
			}
			if err := c.fill(); err != nil {
				return headScan{}, err
			}
		}
		head := c.buf[c.r : c.r+s.at]
		c.r += s.at
		switch {
		case s.status == 101:
			return bad("the protocol was switched unasked")
		case s.status < 200:
			continue
		case !c.parse(head, &s):
			return bad("the head can be read in more than one way")
		}
		// Where a redirect leads is nobody's business: it is not followed, and some addresses hold a credential.
		c.header.Del("Location")
		return s, nil
	}
	return bad("too many interim answers")
}

func isText[T string | []byte](p T) bool {
	for i := range len(p) {
		if c := p[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

// token are the bytes that the name of a header is made of.
var token = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

func isToken[T string | []byte](p T) bool {
	for i := range len(p) {
		if !token[p[i]] {
			return false
		}
	}
	return len(p) > 0
}

// equalFold reports whether p is s, which is in lower case, in any case.
func equalFold[T string | []byte](p T, s string) bool {
	if len(p) != len(s) {
		return false
	}
	for i := range len(p) {
		c := p[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != s[i] {
			return false
		}
	}
	return true
}
