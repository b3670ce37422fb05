package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"

	"bytes"
	"strings"

	"github.com/valyala/fasthttp"
)

const (
	// maxHeaders is how many header lines a request may have: clients and proxies together send twenty.
	maxHeaders = 100
	// maxURI is how long a request's target may be.
	maxURI = 8 << 10
	// smallBody may come whatever becomes of its request, so that the connection can be used again after a refusal. The head
	// of a request with a larger body is judged first.
	smallBody = 64 << 10
)

// address is what a request is for.
type address uint8

const (
	nowhere address = iota
	completions
	modelList
	oneModel
)

const (
	pathCompletions = "/v1/chat/completions"
	pathModels      = "/v1/models"
)

// addresses says of each where it is, as the log names it, and which methods it takes.
var addresses = [...]struct{ path, allow string }{
	nowhere:     {},
	completions: {pathCompletions, "POST"},
	modelList:   {pathModels, "GET, HEAD"},
	oneModel:    {pathModels + "/{id}", "GET, HEAD"},
}

// addressOf compares a path as it came, byte for byte: what a normaliser would make of it is another path.
func addressOf(path []byte) address {
	switch {
	case string(path) == pathCompletions:
		return completions
	case string(path) == pathModels:
		return modelList
	case bytes.HasPrefix(path, []byte(pathModels+"/")):
		return oneModel
	}
	return nowhere
}

// dispatch finds out what a request is for by its head alone. The path is without its query; it is the header's.
func dispatch(h *fasthttp.RequestHeader) (to address, path []byte, e *apierror.Error) {
	if e := checkHead(h); e != nil {
		return nowhere, nil, e
	}
	path = pathOf(h)
	to = addressOf(path)
	switch {
	case to == nowhere:
		return to, path, notFound(h, path)
	case to == completions && h.IsPost(), to != completions && (h.IsGet() || h.IsHead()):
		return to, path, nil
	}
	return to, path, wrongMethod(h, addresses[to].allow)
}

// pathOf is the path of a request's target. The target may be a whole URL, which names the same host as the header Host:
// checkHead has seen to that.
func pathOf(h *fasthttp.RequestHeader) []byte {
	uri, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	if authority, path, whole := splitURL(uri); whole && authority != nil {
		return path
	}
	return uri
}

// splitURL takes a URL apart; whole is false for a target that is only a path. authority is nil where the scheme is not
// one of HTTP.
func splitURL(uri []byte) (authority, path []byte, whole bool) {
	if len(uri) == 0 || uri[0] == '/' {
		return nil, nil, false
	}
	scheme, rest, whole := bytes.Cut(uri, []byte("://"))
	if !whole || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
		return nil, nil, whole
	}
	n := bytes.IndexAny(rest, "/?")
	if n < 0 {
		n = len(rest)
	}
	return rest[:n:n], rest[n:], true
}

// checkHead refuses what fasthttp lets pass: whatever somebody in between may have read otherwise, versions that nobody
// here speaks, expectations that nobody here can meet, and heads beyond measure.
func checkHead(h *fasthttp.RequestHeader) *apierror.Error {
	if !h.IsHTTP11() && string(h.Protocol()) != "HTTP/1.0" {
		e := apierror.Invalid("http_version_not_supported", "", "The gateway speaks HTTP/1.1 and HTTP/1.0.")
		return refusedHead(e, fasthttp.StatusHTTPVersionNotSupported)
	}
	if len(h.RequestURI()) > maxURI {
		e := apierror.Invalid("uri_too_long", "", "The request's address is longer than %d KiB.", maxURI>>10)
		return refusedHead(e, fasthttp.StatusRequestURITooLong)
	}
	lines, coded, sized := 0, false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		text, whole := bytes.CutSuffix(line, []byte("\r\n"))
		if whole && len(text) == 0 {
			break
		}
		name, value, colon := bytes.Cut(text, []byte{':'})
		if lines++; !whole || !colon || !httpfield.ValidName(name) {
			return ambiguous()
		}
		switch len(name) {
		case len("transfer-encoding"):
			if bytes.EqualFold(name, []byte("transfer-encoding")) {
				coded = true
				if !bytes.EqualFold(bytes.Trim(value, " \t"), []byte("chunked")) {
					return ambiguous()
				}
			}
		case len("content-length"):
			sized = sized || bytes.EqualFold(name, []byte("content-length"))
		case len("expect"):
			value = bytes.Trim(value, " \t")
			if bytes.EqualFold(name, []byte("expect")) && len(value) > 0 && !bytes.EqualFold(value, []byte("100-continue")) {
				e := apierror.Invalid("expectation_failed", "", "The request's Expect can only be 100-continue.")
				return refusedHead(e, fasthttp.StatusExpectationFailed)
			}
		}
	}
	switch {
	case lines > maxHeaders:
		e := apierror.Invalid("request_header_too_large", "", "The request has more than %d header lines.", maxHeaders)
		return refusedHead(e, fasthttp.StatusRequestHeaderFieldsTooLarge)
	case coded && sized, !isHost(h.Host()):
		return ambiguous()
	}
	if authority, _, whole := splitURL(h.RequestURI()); whole && (len(authority) == 0 || !bytes.EqualFold(authority, h.Host())) {
		return ambiguous()
	}
	return nil
}

func refusedHead(e *apierror.Error, status int) *apierror.Error {
	e.Status, e.CloseClient = status, true
	return e
}

// ambiguous is the answer to a head that is not what HTTP allows, or allows more than one reading: a line that goes on in
// the next one or ends without CR LF, a length that is said twice or in another way than by a number or by chunks, a host
// that is none or another one than in the target.
func ambiguous() *apierror.Error {
	return refusedHead(apierror.Invalid("bad_request", "", "The request's header can be read in more than one way."), fasthttp.StatusBadRequest)
}

// isHost tells whether a Host is a name or an address, with a port or without, and nothing that a URL has around it. It
// is empty where HTTP/1.0 leaves it out.
func isHost(host []byte) bool {
	for _, c := range host {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(".-_:[]", c) >= 0) {
			return false
		}
	}
	colon := bytes.LastIndexByte(host, ':')
	if colon < 0 || bytes.LastIndexByte(host, ']') > colon {
		return true
	}
	port := 0
	for _, c := range host[colon+1:] {
		if c < '0' || c > '9' {
			return false
		}
		port = min(10*port+int(c-'0'), 1<<16)
	}
	return port < 1<<16
}

// severalTypes tells whether a request has more than one Content-Type, of which fasthttp keeps the last.
func severalTypes(h *fasthttp.RequestHeader) bool {
	n := 0
	for line := range bytes.Lines(h.RawHeaders()) {
		if name, _, _ := bytes.Cut(line, []byte{':'}); bytes.EqualFold(name, []byte("content-type")) {
			n++
		}
	}
	return n > 1
}

// words are the segments of the paths that clients ask for by mistake, and of our own. What else a path holds may be
// anything, a key among it, and is shown to nobody.
var words = map[string]bool{
	"admin": true, "api": true, "assistants": true, "audio": true, "batches": true, "chat": true, "completion": true,
	"completions": true, "deployments": true, "embeddings": true, "engines": true, "favicon.ico": true, "files": true,
	"generate": true, "health": true, "healthz": true, "images": true, "messages": true, "metrics": true, "model": true,
	"models": true, "moderations": true, "openai": true, "readyz": true, "responses": true, "robots.txt": true,
	"status": true, "tags": true, "threads": true, "v1": true, "v1beta": true, "v2": true,
}

// maxSegments is how many segments of a path are shown.
const maxSegments = 8

// legible is a path as it may be shown and logged: of its segments the words, and a star for any other.
func legible(path []byte) string {
	var b strings.Builder
	segments := 0
	for segment := range bytes.SplitSeq(bytes.TrimPrefix(path, []byte{'/'}), []byte{'/'}) {
		if segments++; segments > maxSegments {
			b.WriteString("/…")
			break
		}
		b.WriteByte('/')
		switch {
		case words[string(segment)]:
			b.Write(segment)
		case len(segment) > 0:
			b.WriteByte('*')
		}
	}
	return b.String()
}
