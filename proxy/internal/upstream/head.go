package upstream

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

const (
	maxHeaders = 256 // header lines
	maxInterim = 100 // 1xx responses before the final one
)

// framing is how a body ends.
type framing uint8

const (
	untilClose framing = iota
	sized
	chunked
	empty // a response without a body, whatever its headers say
)

// headScan parses a response header incrementally, line by line, and rejects what another parser might parse differently.
type headScan struct {
	at      int // start of the next line
	seen    int // searched for LF up to here
	headers int
	old     bool // HTTP/1.0
	coded   bool // there is a Content-Encoding
	status  int
	framing framing
	length  int64
	header  *header // gets the lines
}

// scan is called with the header from its start, and more of it each time. done means that p[:s.at] is the whole header. Objections
// quote nothing.
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
		at := s.at
		s.at, s.seen = end+1, end+1
		switch {
		case at == 0:
			objection = s.statusLine(line)
		case len(line) == 0:
			return true, ""
		default:
			objection = s.headerLine(line, at)
		}
		if objection != "" {
			return false, objection
		}
	}
}

// statusLine reads "HTTP/1.1 200 OK".
func (s *headScan) statusLine(l []byte) string {
	if len(l) < len("HTTP/1.1 200") || l[7] != '0' && l[7] != '1' || l[8] != ' ' || len(l) > 12 && l[12] != ' ' || !httpfield.ValidValue(l) {
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
	s.header.old, s.header.status = s.old, s.status
	return ""
}

// headerLine parses the line l, which starts at index at.
func (s *headScan) headerLine(l []byte, at int) string {
	if s.headers++; s.headers > maxHeaders {
		return "too many headers"
	}
	colon := bytes.IndexByte(l, ':')
	if colon < 0 {
		return "malformed header"
	}
	name, value := l[:colon], l[colon+1:]
	if !httpfield.ValidName(name) || !httpfield.ValidValue(value) {
		return "malformed header"
	}
	begin, end := colon+1, len(l)
	for begin < end && isBlank(l[begin]) {
		begin++
	}
	for begin < end && isBlank(l[end-1]) {
		end--
	}
	value = l[begin:end]
	s.header.fields = append(s.header.fields, field{uint16(at), uint16(at + colon), uint16(at + begin), uint16(at + end)})
	switch {
	case httpfield.EqualFold(name, "connection"):
		s.header.connection(value)
	case httpfield.EqualFold(name, "content-length"):
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
	case httpfield.EqualFold(name, "transfer-encoding"):
		if s.framing != untilClose {
			return "more than one length"
		}
		if s.old {
			return "transfer-encoding in HTTP/1.0"
		}
		if !httpfield.EqualFold(value, "chunked") {
			return "unknown transfer-encoding"
		}
		s.framing = chunked
	case httpfield.EqualFold(name, "content-encoding"):
		if s.coded {
			return "more than one content-encoding"
		}
		s.coded = true
	}
	return ""
}

// header is the header of a response: its text, and the ranges of names and values in it. All of it passed the scan.
type header struct {
	text   []byte
	fields []field

	status             int  // 0: the status line has not been read
	old, closes, keeps bool // HTTP/1.0; what Connection says
}

// last reports whether the connection ends with the response.
func (h *header) last() bool { return h.closes || h.old && !h.keeps }

// field is the ranges of a name and its value, in bytes. uint16 suffices: a header is at most maxHead long.
type field struct{ name, nameEnd, value, valueEnd uint16 }

func (h *header) reset() { *h = header{text: h.text[:0], fields: h.fields[:0]} }

// copyText copies the header that the fields are ranges of. The memory of a long one is not kept for the next.
func (h *header) copyText(head []byte) {
	if cap(h.text) > 4<<10 && len(head) <= 4<<10 {
		h.text = nil
	}
	h.text = append(h.text[:0], head...)
}

// get returns the value of the first header with a name, ignoring case; nil if there is none.
func (h *header) get(name string) []byte {
	for _, f := range h.fields {
		if len(name) == int(f.nameEnd-f.name) && bytes.EqualFold(h.text[f.name:f.nameEnd], []byte(name)) {
			return h.text[f.value:f.valueEnd:f.valueEnd]
		}
	}
	return nil
}

// del removes all headers with a name in lower case.
func (h *header) del(name string) {
	h.fields = slices.DeleteFunc(h.fields, func(f field) bool { return httpfield.EqualFold(h.text[f.name:f.nameEnd], name) })
}

// connection parses the value of a Connection header.
func (h *header) connection(value []byte) {
	for option := range bytes.SplitSeq(value, []byte{','}) {
		option = bytes.Trim(option, " \t")
		h.closes = h.closes || httpfield.EqualFold(option, "close")
		h.keeps = h.keeps || httpfield.EqualFold(option, "keep-alive")
	}
}

// readHead reads the header of the final response into c.header.
func (c *conn) readHead() (headScan, error) {
	bad := func(objection string) (headScan, error) {
		return headScan{}, &Error{Kind: InvalidResponse, Phase: PhaseHead, Reason: objection}
	}
	for range maxInterim + 1 {
		c.header.reset()
		s := headScan{header: &c.header}
		for {
			done, objection := s.scan(c.buf[c.r:c.w])
			if objection != "" {
				return bad(objection)
			}
			if done {
				break
			}
			if !c.makeRoom() {
				return bad("head too long")
			}
			if err := c.fill(); err != nil {
				return headScan{}, err
			}
		}
		head := c.buf[c.r : c.r+s.at]
		c.r += s.at
		if s.status == 101 {
			return bad("unsolicited protocol switch")
		}
		if s.status < 200 {
			continue
		}
		c.header.copyText(head)
		// Redirects are not followed, and the target may contain a credential.
		c.header.del("location")
		return s, nil
	}
	return bad("too many interim responses")
}

// timedOut reports whether what readHead returned is not the response to the request, but one to the silence before it: servers and
// load balancers send a 408 before they close an idle connection (RFC 9110, section 15.5.9), and it may cross the next request. A
// 408 that keeps the connection and says why is the provider's.
func (c *conn) timedOut(s headScan, err error) bool {
	if c.header.status != http.StatusRequestTimeout {
		return false
	}
	if err != nil {
		_, ours := errors.AsType[*Error](err)
		return !ours // the connection was lost within the header
	}
	return c.header.last() || s.framing == sized && s.length == 0
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
