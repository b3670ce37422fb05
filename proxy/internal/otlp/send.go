package otlp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// sender delivers the batches of one signal, in order, and keeps what is known about the collector.
type sender struct {
	e        *Exporter
	signal   Signal
	exported atomic.Int64
	dropped  [drops]atomic.Int64

	mu    sync.Mutex
	since time.Time // when err was first seen; zero if the last request has succeeded
	err   error
}

const (
	maxBackoff  = time.Minute
	maxResponse = 64 << 10 // bytes of a response that are read
)

// errGarbage is the failure of a request whose response is not one of a collector.
var errGarbage = errors.New("the response is not one of a collector")

// statusError is a response with a status other than 2xx.
type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("the collector responded with status %d", int(s))
}

// transient reports whether the same request may succeed later.
func (s statusError) transient() bool {
	switch s {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// deliver posts a batch of n items, and tries again while the collector may accept it later. During Close it tries once.
func (s *sender) deliver(body []byte, n int64) {
	if n == 0 {
		return
	}
	t := &s.e.o.Timing
	giveUp := time.Now().Add(t.GiveUp)
	for wait := t.Backoff; ; wait = min(2*wait, maxBackoff) {
		rejected, retryAfter, err := s.post(body)
		s.report(err)
		if err == nil {
			s.exported.Add(n - min(rejected, n))
			s.dropped[DroppedRejected].Add(min(rejected, n))
			return
		}
		status, answered := errors.AsType[statusError](err)
		if answered && !status.transient() || errors.Is(err, errGarbage) {
			s.dropped[DroppedRejected].Add(n)
			return
		}
		// Between half of it and all, so that gateways do not return at once.
		pause := max(wait/2+rand.N(wait/2+1), min(retryAfter, t.GiveUp))
		if time.Now().Add(pause).After(giveUp) || !s.pause(pause) {
			s.dropped[DroppedExpired].Add(n)
			return
		}
	}
}

// pause waits, and returns false if the Exporter is being closed.
func (s *sender) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.e.stop:
		return false
	}
}

// post makes one request. rejected is how many items the collector has not accepted of a batch that it has accepted.
func (s *sender) post(body []byte) (rejected int64, retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(s.e.ctx, s.e.o.Timing.Request)
	defer cancel()
	r, err := s.e.client.Do(ctx, &upstream.Request{
		Method: http.MethodPost, Path: "/v1/" + s.signal.String(), Headers: s.e.headers, Body: body,
		ContentType: "application/x-protobuf", Once: true,
	}, nil)
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	if r.Status() < 200 || r.Status() >= 300 {
		return 0, r.RetryAfter(s.e.o.Now()), statusError(r.Status())
	}
	data, err := r.ReadAll(nil, maxResponse)
	if err != nil {
		return 0, 0, err
	}
	rejected, message, ok := parseResponse(data)
	if !ok || !strings.HasPrefix(string(r.Header("content-type")), "application/x-protobuf") && len(data) > 0 {
		return 0, 0, errGarbage
	}
	if message != "" {
		s.e.o.Log.Debug("message of the collector", "signal", s.signal.String(), "rejected", rejected, "message", message)
	}
	return rejected, 0, nil
}

// report records the outcome of a request, and logs when the collector stops to accept a signal, and when it accepts it
// again.
func (s *sender) report(err error) {
	s.mu.Lock()
	before, since := s.err, s.since
	if s.err = err; err == nil {
		s.since = time.Time{}
	} else if before == nil {
		s.since = s.e.o.Now()
	}
	s.mu.Unlock()
	log, signal := s.e.o.Log, s.signal.String()
	switch {
	case before == nil && err != nil:
		log.Warn("telemetry not exported; it is dropped once the buffer is full", "signal", signal, "error", err)
	case before != nil && err == nil:
		lost := int64(0)
		for _, reason := range []Drop{DroppedBuffer, DroppedExpired, DroppedRejected} {
			lost += s.dropped[reason].Load()
		}
		log.Info("telemetry exported again", "signal", signal, "failed_for", s.e.o.Now().Sub(since).Round(time.Millisecond).String(), "dropped_total", lost)
	}
}

// failure returns the error of the last request, and since when requests have failed. A nil sender has none.
func (s *sender) failure() (since time.Time, err error) {
	if s == nil {
		return time.Time{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.err
}

// parseResponse parses an ExportTraceServiceResponse, or that of another signal, which have the same fields: a partial
// success with the number of rejected items and a message. The message is cut to one short line.
func parseResponse(data []byte) (rejected int64, message string, ok bool) {
	const partialSuccess, rejectedItems, errorMessage = 1, 1, 2
	ok = eachField(data, func(field protowire.Number, value uint64, inner []byte) bool {
		if field != partialSuccess || inner == nil {
			return true
		}
		return eachField(inner, func(field protowire.Number, value uint64, text []byte) bool {
			switch field {
			case rejectedItems:
				rejected = max(int64(value), 0)
			case errorMessage:
				message = oneLine(text)
			}
			return true
		})
	})
	return rejected, message, ok
}

// eachField calls f with the fields of a message: with the value of a varint, or the bytes of a length-delimited field,
// which are not nil. It returns false if the message is malformed or f returns false.
func eachField(data []byte, f func(field protowire.Number, value uint64, bytes []byte) bool) bool {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		data = data[n:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			if bytes, n = protowire.ConsumeBytes(data); bytes == nil {
				bytes = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 || !f(field, value, bytes) {
			return false
		}
		data = data[n:]
	}
	return true
}

// maxMessage is the maximum length of a message of the collector.
const maxMessage = 200

func oneLine(text []byte) string {
	s := strings.ToValidUTF8(string(text[:min(len(text), maxMessage)]), "")
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
}
