package admin

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// requestPath is followed by the ID of a request, percent-encoded or not.
const requestPath = "/requests/"

const (
	defaultRequests = 100  // number of requests on a page
	maxRequests     = 1000 // maximum number on a page

	streamEvery     = 250 * time.Millisecond
	streamRows      = 200 // maximum number of requests in an event
	streamHeartbeat = 15 * time.Second
	maxStreams      = 32
)

// keepsRequests reports whether recent requests may be shown, and otherwise responds with the reason why not.
func (s *Server) keepsRequests(ctx *fasthttp.RequestCtx) bool {
	switch {
	case s.o.Recent == nil:
		respondText(ctx, fasthttp.StatusNotFound, "Recent requests are not kept: requests in [admin] is 0.")
	case !s.showsRequests():
		respondText(ctx, fasthttp.StatusForbidden, "Recent requests are served only on a loopback address, unless token is set in [admin].")
	default:
		return true
	}
	return false
}

// showsRequests reports whether there are recent requests that may be shown: other machines must not read them without a
// token.
func (s *Server) showsRequests() bool {
	return s.o.Recent != nil && (s.o.Token != "" || !s.exposed.Load())
}

// requests responds with recent requests, the last ones first.
func (s *Server) requests(ctx *fasthttp.RequestCtx) {
	if q, ok := s.requestsQuery(ctx); ok {
		s.respondRequests(ctx, s.o.Recent.Select(&q), q.Limit)
	}
}

// requestsQuery returns the query for recent requests. It responds with an error and reports false if it is invalid, or if
// recent requests are not kept or not shown.
func (s *Server) requestsQuery(ctx *fasthttp.RequestCtx) (q telemetry.RecentQuery, ok bool) {
	if !s.keepsRequests(ctx) {
		return q, false
	}
	q, err := requestQuery(ctx.QueryArgs())
	if err != nil {
		respondText(ctx, fasthttp.StatusBadRequest, "Invalid query: "+err.Error()+".")
	}
	return q, err == nil
}

// request responds with the requests that have the ID in the path.
func (s *Server) request(ctx *fasthttp.RequestCtx) {
	if !s.keepsRequests(ctx) {
		return
	}
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	id := strings.TrimPrefix(path, requestPath)
	if unescaped, err := url.PathUnescape(id); err == nil {
		id = unescaped
	}
	if id == "" {
		respondText(ctx, fasthttp.StatusNotFound, "Not found.")
		return
	}
	entries := s.o.Recent.Select(&telemetry.RecentQuery{ID: id, Limit: maxRequests})
	if len(entries) == 0 {
		respondText(ctx, fasthttp.StatusNotFound, "No recent request has this ID.")
		return
	}
	s.respondRequests(ctx, entries, maxRequests)
}

// respondRequests responds with requests, of which there may be more if there are as many as limit.
func (s *Server) respondRequests(ctx *fasthttp.RequestCtx, entries []telemetry.Entry, limit int) {
	body := appendRequests([]byte("{"), entries, time.Now())
	if n := len(entries); n == limit && entries[n-1].Seq > 0 {
		body = strconv.AppendUint(append(body, ",\n\"next\":"...), entries[n-1].Seq, 10)
	}
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(append(body, "}\n"...))
}

// appendRequests appends the member "requests" with one request on each line.
func appendRequests(dst []byte, entries []telemetry.Entry, now time.Time) []byte {
	dst = append(dst, `"requests":[`...)
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = entries[i].AppendJSON(append(dst, '\n'), now)
	}
	return append(dst, ']')
}

// requestQuery reads the query of /requests.
func requestQuery(args *fasthttp.Args) (q telemetry.RecentQuery, err error) {
	q.Limit = defaultRequests
	for name, value := range args.All() {
		text := string(value)
		switch string(name) {
		case "id":
			q.ID = text
		case "key":
			q.Key = text
		case "model":
			q.Model = text
		case "target":
			q.Target = text
		case "code":
			q.Code = text
		case "status":
			if !validStatus(text) {
				err = fmt.Errorf("status: want a number such as 429, or a class such as 5xx")
			}
			q.Status = text
		case "state":
			if text != telemetry.StateInFlight && text != telemetry.StateEnded {
				err = fmt.Errorf("state: want %s or %s", telemetry.StateInFlight, telemetry.StateEnded)
			}
			q.State = text
		case "failed":
			if q.Failed, err = strconv.ParseBool(text); err != nil {
				err = fmt.Errorf("failed: want true or false")
			}
		case "since":
			if q.Since, err = parseSince(text, time.Now()); err != nil {
				err = fmt.Errorf("since: want a time such as 2026-01-31T12:00:00Z, or a duration such as 15m")
			}
		case "before":
			if q.Before, err = strconv.ParseUint(text, 10, 64); err != nil {
				err = fmt.Errorf("before: want next of the previous page")
			}
		case "limit":
			if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxRequests {
				err = fmt.Errorf("limit: want 1 to %d", maxRequests)
			}
		default:
			err = fmt.Errorf("unknown parameter: want id, key, model, target, status, code, state, failed, since, before or limit")
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// validStatus reports whether a text is a status, such as 429, or a class of them, such as 4xx.
func validStatus(text string) bool {
	if len(text) != 3 || text[0] < '1' || text[0] > '5' {
		return false
	}
	if text[1:] == "xx" {
		return true
	}
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// parseSince parses a time, or a duration before now.
func parseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Parse(time.RFC3339, text)
}

// stream responds with requests as server-sent events while they end: at most streamRows of them every streamEvery. A
// client that reads too slowly misses requests, and learns how many.
func (s *Server) stream(ctx *fasthttp.RequestCtx) {
	q, ok := s.requestsQuery(ctx)
	if !ok {
		return
	}
	q.Limit = streamRows
	ctx.SetContentType("text/event-stream")
	if ctx.IsHead() {
		return
	}
	seen := s.o.Recent.Last()
	if last, err := strconv.ParseUint(string(ctx.Request.Header.Peek("last-event-id")), 10, 64); err == nil && last <= seen {
		seen = last
	}
	if !s.streams.reserve() {
		respondText(ctx, fasthttp.StatusServiceUnavailable, "Too many streams of requests.")
		return
	}
	ctx.SetConnectionClose()
	var head bytes.Buffer
	w := bufio.NewWriter(&head)
	ctx.Response.Header.SetContentLength(-2) // until the connection is closed
	_ = ctx.Response.Header.Write(w)         // a Buffer does not fail
	_ = w.Flush()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(c net.Conn) {
		defer s.streams.release(c)
		defer rescue.Recover(s.logPanic)
		if s.streams.add(c) {
			s.writeStream(c, head.Bytes(), seen, &q)
		}
	})
}

// writeStream writes the head of a response, and then events until the client is gone or Close is called.
func (s *Server) writeStream(c net.Conn, out []byte, seen uint64, q *telemetry.RecentQuery) {
	ticks := time.NewTicker(streamEvery)
	defer ticks.Stop()
	written := time.Now()
	for {
		if len(out) > 0 {
			written = time.Now()
			_ = c.SetWriteDeadline(written.Add(writeTimeout))
			if _, err := c.Write(out); err != nil {
				return
			}
		}
		select {
		case <-s.stop:
			return
		case <-ticks.C:
		}
		entries, lost, last := s.o.Recent.After(seen, q)
		seen, out = last, out[:0]
		switch {
		case len(entries) > 0 || lost > 0:
			out = append(strconv.AppendUint(append(out, "id: "...), last, 10), "\ndata: {"...)
			for i, line := range bytes.Split(appendRequests(nil, entries, time.Now()), []byte("\n")) {
				if i > 0 {
					out = append(out, "\ndata: "...)
				}
				out = append(out, line...)
			}
			out = append(strconv.AppendUint(append(out, `,"lost":`...), lost, 10), "}\n\n"...)
		case time.Since(written) >= streamHeartbeat:
			out = append(out, ":\n\n"...)
		}
	}
}

// streams are the connections of streams.
type streams struct {
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	reserved int
	closed   bool
	running  sync.WaitGroup
}

// reserve reserves a stream until release.
func (s *streams) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.reserved == maxStreams {
		return false
	}
	s.reserved++
	s.running.Add(1)
	return true
}

// add adds the connection of a stream. It returns false after close.
func (s *streams) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.conns == nil {
		s.conns = make(map[net.Conn]struct{})
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *streams) release(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.reserved--
	s.running.Done()
}

// close closes all streams, and waits until they have ended.
func (s *streams) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}
