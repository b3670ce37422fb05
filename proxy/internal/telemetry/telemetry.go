// Package telemetry tells operators what happened: one line in the access log for each request, and metrics.
//
// It owns the shape of a Record and how it is written and counted, and what the metrics are called. It does not decide
// when a request is over: proxy calls Request exactly once for each; nor does it serve the metrics: proxy/admin does.
// Nothing that it is given may hold a credential, a prompt or an answer.
//
// Concurrency: everything here is safe for concurrent use, but a Record belongs to its request until it is handed over.
package telemetry

import (
	"context"
	"log/slog"
	"time"
)

// Record is what is known of a request when it is over.
type Record struct {
	Began     time.Time
	RequestID string
	Method    string    // "" where no head was read
	Path      string    // the route, "/v1/chat/completions", never what a client wrote beyond it; "" for none
	Ended     time.Time // zero: when it is counted
	Remote    string
	Key       string // name of the client key
	Status    int    // as the client saw it; 499 where it left before an answer was complete
	Code      string // error code, "" for success

	// Of a chat completion.
	Stream     bool
	Model      string // the configured id
	Provider   string // of the target that answered, or was tried last
	Target     string // the provider's name for the model
	UpstreamID string
	Attempts   int
	FirstEvent time.Duration // until the first event of the answer was there; 0: none came
	Complete   bool          // the answer was whole when it ended
	Bytes      int64         // of the answer's body

	PromptTokens, CompletionTokens, CachedTokens, ReasoningTokens int64
	UsageEstimated                                                bool
	Dropped                                                       int   // events that were not forwarded, being against the convention
	Fuel                                                          int64 // that plugins used

	Cause error // for the log only

	Unlogged bool // there is no line: it is one of many that the log has said something about

	counted bool // among the requests in flight
}

// Log accounts requests: it writes the access log, and has them counted.
type Log struct {
	Logger  *slog.Logger
	Metrics *Metrics         // nil: nothing is counted
	Now     func() time.Time // nil: time.Now
}

// Request counts a request that is over, and writes its line.
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
	if l.Metrics != nil {
		l.Metrics.request(r, took)
	}
	if r.Unlogged {
		return
	}
	level := slog.LevelInfo
	switch {
	case r.Status >= 500, r.Status < 400 && r.Code != "":
		// A stream that broke off has its status behind it.
		level = slog.LevelError
	case r.Status >= 400:
		level = slog.LevelWarn
	}
	h := l.Logger.Handler()
	if !h.Enabled(context.Background(), level) {
		return
	}
	if h, ok := h.(*handler); ok && h.request(at, level, r, took) {
		return
	}
	a := make(attrs, 0, 24)
	r.fields(took, &a)
	l.Logger.LogAttrs(context.Background(), level, message, a...)
}

// message is that of every line of the access log.
const message = "request"

// fieldWriter takes the fields of a line, in their order.
type fieldWriter interface {
	text(name, v string)
	number(name string, v int64)
	truth(name string, v bool)
	duration(name string, v time.Duration)
}

// fields are what a request's line says of it. What is not known is left out.
func (r *Record) fields(took time.Duration, to fieldWriter) {
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
	to.duration("took", took)
	to.text("remote", r.Remote)
	text("key", r.Key)
	text("code", r.Code)
	text("model", r.Model)
	text("provider", r.Provider)
	text("target", r.Target)
	text("upstream_request", r.UpstreamID)
	if r.Model != "" {
		to.truth("stream", r.Stream)
		to.truth("complete", r.Complete)
		to.number("attempts", int64(r.Attempts))
	}
	if r.FirstEvent > 0 {
		to.duration("first_event", r.FirstEvent)
	}
	number("bytes", r.Bytes)
	number("prompt_tokens", r.PromptTokens)
	number("completion_tokens", r.CompletionTokens)
	number("cached_tokens", r.CachedTokens)
	number("reasoning_tokens", r.ReasoningTokens)
	if r.UsageEstimated {
		to.truth("usage_estimated", true)
	}
	number("dropped_events", int64(r.Dropped))
	number("fuel", r.Fuel)
	if r.Cause != nil {
		text("cause", r.Cause.Error())
	}
}

// attrs are fields for any handler.
type attrs []slog.Attr

func (a *attrs) text(name, v string)                   { *a = append(*a, slog.String(name, v)) }
func (a *attrs) number(name string, v int64)           { *a = append(*a, slog.Int64(name, v)) }
func (a *attrs) truth(name string, v bool)             { *a = append(*a, slog.Bool(name, v)) }
func (a *attrs) duration(name string, v time.Duration) { *a = append(*a, slog.Duration(name, v)) }
