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

// headScan parses a response header incrementally, line by line, and rejects everything that another parser might parse
// differently.
type headScan struct {
	at      int  // start of the next line
	seen    int  // everything before this index has been searched for LF
	headers int  // number of header lines
	http10  bool // HTTP/1.0
	coded   bool // there is a Content-Encoding
	status  int
	framing framing
	length  int64
	header  *header // receives the fields
}

// scan is called with all bytes of the header that have arrived, and again from the start of the header when there are
// more. If done, p[:s.at] is the whole header. An objection describes why the header is rejected, without quoting it.
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
			return false, "a header line does not end with CRLF"
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

// statusLine parses the status line, such as "HTTP/1.1 200 OK".
func (s *headScan) statusLine(l []byte) string {
	if len(l) < len("HTTP/1.1 200") || l[7] != '0' && l[7] != '1' || l[8] != ' ' || len(l) > 12 && l[12] != ' ' || !httpfield.ValidValue(l) {
		return "malformed status line"
	}
	s.http10 = l[7] == '0'
	for _, c := range l[9:12] {
		if c < '0' || c > '9' {
			return "malformed status line"
		}
		s.status = s.status*10 + int(c-'0')
	}
	if s.status < 100 || s.status > 599 {
		return "status out of range"
	}
	s.header.http10, s.header.status = s.http10, s.status
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
		s.header.parseConnection(value)
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
		if s.http10 {
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

// header is the header of a response that has passed the scan: its text, and the ranges of names and values in it.
type header struct {
	text   []byte
	fields []field
	target field // the value of Location

	status        int  // 0 until the status line has been read
	http10        bool // the version is HTTP/1.0
	connClose     bool // Connection has the option close
	connKeepAlive bool // Connection has the option keep-alive
}

// last reports whether the connection cannot be used after this response.
func (h *header) last() bool { return h.connClose || h.http10 && !h.connKeepAlive }

// field is the byte ranges of a name and its value. uint16 suffices because a header has at most maxHead bytes.
type field struct{ name, nameEnd, value, valueEnd uint16 }

func (h *header) reset() { *h = header{text: h.text[:0], fields: h.fields[:0]} }

// copyText copies the text that the fields' ranges refer to. The memory of a long header is not kept for the next one.
func (h *header) copyText(head []byte) {
	if cap(h.text) > 4<<10 && len(head) <= 4<<10 {
		h.text = nil
	}
	h.text = append(h.text[:0], head...)
}

// get returns the value of the first header with a name, ignoring case, or nil if there is none.
func (h *header) get(name string) []byte {
	if f := h.find(name); f != (field{}) {
		return h.text[f.value:f.valueEnd:f.valueEnd]
	}
	return nil
}

// find returns the first header with a name, ignoring case, or the zero field if there is none.
func (h *header) find(name string) field {
	for _, f := range h.fields {
		if len(name) == int(f.nameEnd-f.name) && bytes.EqualFold(h.text[f.name:f.nameEnd], []byte(name)) {
			return f
		}
	}
	return field{}
}

// del removes all headers with a name, which is in lower case.
func (h *header) del(name string) {
	h.fields = slices.DeleteFunc(h.fields, func(f field) bool { return httpfield.EqualFold(h.text[f.name:f.nameEnd], name) })
}

// parseConnection parses the value of a Connection header.
func (h *header) parseConnection(value []byte) {
	for option := range bytes.SplitSeq(value, []byte{','}) {
		option = bytes.Trim(option, " \t")
		h.connClose = h.connClose || httpfield.EqualFold(option, "close")
		h.connKeepAlive = h.connKeepAlive || httpfield.EqualFold(option, "keep-alive")
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
				return bad("header too long")
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
		// The target of a redirect may contain a credential, so it is not among the fields that plugins can read.
		c.header.target = c.header.find("location")
		c.header.del("location")
		return s, nil
	}
	return bad("too many interim responses")
}

// timedOut reports whether s and err, as returned by readHead, are not the response to the request, but a 408 because
// the connection was idle. Servers and load balancers send one before they close an idle connection (RFC 9110, section
// 15.5.9), and it may cross the next request on the wire. A 408 that keeps the connection open and has a body is the
// provider's response to the request.
func (c *conn) timedOut(s headScan, err error) bool {
	if c.header.status != http.StatusRequestTimeout {
		return false
	}
	if err != nil {
		_, ours := errors.AsType[*Error](err)
		return !ours // the connection was lost in the middle of the header
	}
	return c.header.last() || s.framing == sized && s.length == 0
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
