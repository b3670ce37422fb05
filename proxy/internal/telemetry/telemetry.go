// Package telemetry implements the access log, with one line per request, the metrics, and the list of recent requests.
//
// It owns the fields of a Record, how they are logged, counted and kept (Recent), and the metrics' names, types, labels and help
// (families.go). It does not decide when a request ends: package proxy calls Log.Request exactly once per request.
// Package admin serves the metrics. A Record must not contain a credential. Its Content, which only traces have, is all that
// it may contain of a prompt or a response.
//
// Concurrency: everything is safe for concurrent use, except that a Record belongs to its request until Log.Request.
package telemetry

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Record describes a finished request.
type Record struct {
	Began     time.Time
	RequestID string
	Method    string    // "" if no header was read
	Path      string    // the route, such as "/v1/chat/completions", never the path as the client sent it; "" if no route matched
	Ended     time.Time // zero means the time of the call of Log.Request
	Remote    string
	Trace     string // the client's traceparent (W3C Trace Context); "" if it sent none
	Span      SpanContext
	Key       string // name of the client key or the principal
	User      string // person behind the key; "" if unknown
	Series    string // label of the key's metrics; "" means Key
	Team      string // the key's team; "" if it has none
	Status    int    // as sent to the client; 499 if it disconnected before the response was complete
	Code      string // error code; "" on success

	// For chat completions.
	Stream     bool
	Model      string // the configured model
	Provider   string // provider of the target that responded or was tried last
	Target     string // the provider's name for the model
	UpstreamID string
	ResponseID []byte // as the client receives it, if there were attempts; valid until Log.Request returns
	Attempts   int
	Tries      []Attempt     // the memory belongs to the request: readers of the record copy it
	Filters    []FilterUse   // filters that applied, in order; the memory is that of the request
	Route      []byte        // the routing decision as one line, if Recent keeps it; valid until Log.Request returns
	Admitted   time.Duration // time until the request was admitted; 0 if it was not
	Generation int64         // number of the configuration; 0 if none was used
	Config     string        // Digest of the configuration
	Hold       cost.Nano     // what was held of budgets when the request was admitted; 0 if nothing was
	Warnings   string        // what was changed in the request, as in x-gateway-warning
	Shadow     bool          // the request is a copy for a shadow target: it is neither logged nor counted
	Rule       string        // the model's rule that selected the targets; "" if none did
	FirstEvent time.Duration // time to the first event of the response; 0 if there was none
	Complete   bool          // the response was complete
	Bytes      int64         // length of the response body

	Tokens         cost.Tokens // usage of the response, as far as it was received
	UsageEstimated bool        // at least one count in Tokens is the gateway's estimate
	UsageExcessive bool        // the provider gave a count that no request can have
	Cost           cost.Nano   // cost of Tokens
	Priced         bool        // Cost is known: the target or its model has prices, and there was a response
	// CancelledTokens is the estimated usage of attempts that were cancelled because another attempt was faster. Their
	// providers charge at least for the prompt. It is not included in Tokens.
	CancelledTokens int64
	CancelledCost   cost.Nano
	FailedTokens    int64 // usage of failed attempts before the one that responded; not included in Tokens
	FailedCost      cost.Nano
	// Uncertain reports that the outcome of an attempt is unknown. UncertainCost is the part of all costs that is booked
	// for such attempts.
	Uncertain     bool
	UncertainCost cost.Nano
	Dropped       int    // number of events that violated the chat completions format
	Fuel          int64  // fuel used by plugins
	Tags          string // tags set by filters, separated by commas

	Cause error // for the log only

	// Content is nil unless the configuration asks for it. Whoever exports the trace takes it out of the record, so
	// that no other reader has it.
	Content *Content

	Unlogged bool // counted but not logged, because the log already has a line for a similar request

	counted bool  // counted as in flight
	slot    int32 // index of the slot in Recent, from 1; 0 if there is none
}

// Principal returns the name of the principal that has sent the request, and the entry of [[identities]] that gives it its
// rights, such as identities[0]. Both are "" if the client has a key of the configuration.
func (r *Record) Principal() (name, identity string) {
	if r.Series == "" || r.Series == r.Key {
		return "", ""
	}
	return r.Key, r.Series
}

// UnusedCost returns the cost of attempts whose response was not used.
func (r *Record) UnusedCost() cost.Nano { return r.CancelledCost.Plus(r.FailedCost) }

// Log logs and counts finished requests.
type Log struct {
	Logger  *slog.Logger
	Metrics *Metrics         // may be nil
	Recent  *Recent          // may be nil
	Export  func(*Record)    // called with each request that is logged, and with copies for shadow targets; may be nil
	Now     func() time.Time // nil means time.Now
}

// Keeps reports whether records, with their attempts, are read by more than the log and the metrics.
func (l *Log) Keeps() bool { return l.Recent != nil || l.Export != nil }

func (l *Log) export(r *Record) {
	if l.Export != nil {
		l.Export(r)
	}
}

// Copy keeps the record of a copy for a shadow target, which has ended.
func (l *Log) Copy(r *Record) {
	l.export(r)
	l.Recent.End(r)
}

// Abandon stops counting and listing a request as in flight, unless Request was called for it.
func (l *Log) Abandon(r *Record) {
	l.Metrics.AbandonRequest(r)
	l.Recent.Abandon(r)
}

// Request counts a finished request and writes its line of the access log.
func (l *Log) Request(r *Record) {
	at := r.Ended
	switch {
	case !at.IsZero():
	case l.Now != nil:
		at = l.Now()
	default:
		at = time.Now()
	}
	took := at.Sub(r.Began)
	if l.Keeps() && !r.Unlogged {
		r.Ended = at
		r.endServed()
		l.export(r) // decides whether there is a trace, which the metrics refer to
	}
	if l.Metrics != nil {
		l.Metrics.request(r, took)
	}
	if r.Unlogged {
		l.Recent.Abandon(r)
		return
	}
	l.Recent.End(r)
	level := r.Level()
	h := l.Logger.Handler()
	if !h.Enabled(context.Background(), level) {
		return
	}
	if h, ok := h.(*handler); ok && h.writeRequest(at, level, r, took) {
		return
	}
	l.Logger.LogAttrs(context.Background(), level, Message, r.attrs(took)...)
}

// Message is the message of every line of the access log.
const Message = "request"

// Failed reports whether the request failed for another reason than the client's.
func (r *Record) Failed() bool {
	// A stream that fails has already sent its 2xx status.
	return r.Status >= 500 || r.Status < 400 && r.Code != ""
}

// Level returns the level of the request's line of the access log.
func (r *Record) Level() slog.Level {
	switch {
	case r.Failed():
		return slog.LevelError
	case r.Status >= 400:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// Attrs returns the fields of the line of a request that has ended. Durations are numbers of milliseconds, and amounts
// are cost.Nanos; both implement encoding.TextMarshaler.
func (r *Record) Attrs() []slog.Attr { return r.attrs(r.Ended.Sub(r.Began)) }

func (r *Record) attrs(took time.Duration) []slog.Attr {
	a := make(attrs, 0, 24)
	r.writeFields(took, &a)
	return a
}

// fieldWriter receives the fields of an access log line in order.
type fieldWriter interface {
	text(name, v string)
	number(name string, v int64)
	bool(name string, v bool)
	duration(name string, v time.Duration) // name ends in the unit, _ms
	amount(name string, v cost.Nano)       // written in US dollars
}

// writeFields writes the fields of a request's line. It omits fields whose value is unknown.
func (r *Record) writeFields(took time.Duration, to fieldWriter) {
	text := func(name, v string) {
		if v != "" {
			to.text(name, v)
		}
	}
	number := func(name string, v int64) {
		if v != 0 {
			to.number(name, v)
		}
	}
	to.text("request", r.RequestID)
	text("method", r.Method)
	text("path", r.Path)
	to.number("status", int64(r.Status))
	to.duration("duration_ms", took)
	to.text("remote", r.Remote)
	text("traceparent", r.Trace)
	if r.Span.Sampled {
		text("trace", hex.EncodeToString(r.Span.TraceID[:]))
	}
	text("key", r.Key)
	text("user", r.User)
	text("code", r.Code)
	text("model", r.Model)
	text("provider", r.Provider)
	text("target", r.Target)
	text("rule", r.Rule)
	text("upstream_request", r.UpstreamID)
	if r.Model != "" {
		to.bool("stream", r.Stream)
		to.bool("complete", r.Complete)
		to.number("attempts", int64(r.Attempts))
	}
	if r.FirstEvent > 0 {
		to.duration("first_event_ms", r.FirstEvent)
	}
	number("bytes", r.Bytes)
	number("prompt_tokens", r.Tokens.Prompt)
	number("completion_tokens", r.Tokens.Completion)
	number("cached_tokens", r.Tokens.Cached)
	number("cache_write_tokens", r.Tokens.CacheWrite)
	number("reasoning_tokens", r.Tokens.Reasoning)
	if r.UsageEstimated {
		to.bool("usage_estimated", true)
	}
	if r.Priced {
		to.amount("cost", r.Cost)
	}
	number("cancelled_tokens", r.CancelledTokens)
	number("failed_tokens", r.FailedTokens)
	if unused := r.UnusedCost(); unused > 0 {
		to.amount("unused_cost", unused)
	}
	if r.UncertainCost > 0 {
		to.amount("uncertain_cost", r.UncertainCost)
	}
	number("dropped_events", int64(r.Dropped))
	number("fuel", r.Fuel)
	text("tags", r.Tags)
	if r.Cause != nil {
		text("cause", r.Cause.Error())
	}
}

// millis is a duration that is logged as a number of milliseconds in both formats. slog writes a time.Duration as "1s"
// in its text format, and as nanoseconds in JSON.
type millis time.Duration

func (d millis) append(dst []byte) []byte {
	return strconv.AppendFloat(dst, float64(time.Duration(d).Microseconds())/1000, 'f', -1, 64)
}

// String implements fmt.Stringer, for handlers that format values themselves.
func (d millis) String() string { return string(d.append(nil)) }

// MarshalText implements encoding.TextMarshaler for slog.TextHandler.
func (d millis) MarshalText() ([]byte, error) { return d.append(nil), nil }

// MarshalJSON implements json.Marshaler.
func (d millis) MarshalJSON() ([]byte, error) { return d.append(nil), nil }

// attrs is a fieldWriter that collects the fields for any slog.Handler.
type attrs []slog.Attr

func (a *attrs) text(name, v string)                   { *a = append(*a, slog.String(name, v)) }
func (a *attrs) number(name string, v int64)           { *a = append(*a, slog.Int64(name, v)) }
func (a *attrs) bool(name string, v bool)              { *a = append(*a, slog.Bool(name, v)) }
func (a *attrs) duration(name string, v time.Duration) { *a = append(*a, slog.Any(name, millis(v))) }
func (a *attrs) amount(name string, v cost.Nano)       { *a = append(*a, slog.Any(name, v)) }
