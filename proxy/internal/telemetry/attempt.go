package telemetry

import (
	"errors"
	"strings"
	"time"
)

// Attempt describes one attempt at a target.
type Attempt struct {
	Provider string
	Target   string
	Why      string // retry or hedge; "" for an attempt in regular order
	Began    time.Time
	Took     time.Duration
	First    time.Duration // time to the first event; 0 if there was none
	Status   int           // of the provider's response; 0 if there was none
	Code     string        // error code, or cancelled; "" on success
	Cause    string        // as CauseText returns it; "" if it is unknown
	Plugin   PluginUse     // the provider's plugin
}

// PluginUse is a plugin that a request has used.
type PluginUse struct {
	Name   string
	Digest string // SHA-256 of its module, in hexadecimal; "" if it has none
	Fuel   int64  // what its calls have used; 0 if that is unknown, as of a cancelled attempt
}

// FilterUse is a filter that applied to a request.
type FilterUse struct {
	Plugin   PluginUse
	Decision string // not_called, passed, changed, failed, or rejected
}

// MaxCause is the maximum length in bytes of causes and warnings in the records of recent requests.
const MaxCause = 120

// Cancelled is the code of an attempt that was cancelled because another one was faster.
const Cancelled = "cancelled"

// PublicError is an error whose text may contain text from a provider or a plugin. PublicCause returns it without that.
type PublicError interface {
	error

	PublicCause() string
}

// CauseText returns the text of a cause without text from a provider or a plugin, cut to MaxCause bytes. It is "" for nil.
func CauseText(cause error) string {
	if cause == nil {
		return ""
	}
	if e, ok := errors.AsType[PublicError](cause); ok {
		return cut(e.PublicCause(), MaxCause)
	}
	return cut(cause.Error(), MaxCause)
}

// cut returns at most the first n bytes of a text, without the end of a character. It does not keep the memory of a
// longer text.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:n]), "")
}

// Served returns the index of the attempt whose response and usage the record has: the last one that was not cancelled.
// It is -1 if there is none.
func (r *Record) Served() int {
	for i := len(r.Tries) - 1; i >= 0; i-- {
		if r.Tries[i].Code != Cancelled {
			return i
		}
	}
	return -1
}

// endServed ends the attempt that was served, which lasts as long as its request. If the response was cut off, so was
// the attempt.
func (r *Record) endServed() {
	i := r.Served()
	if i < 0 || r.Tries[i].Code != "" {
		return
	}
	t := &r.Tries[i]
	t.Took = r.Ended.Sub(t.Began)
	if !r.Complete && r.Code != "" {
		t.Code, t.Cause = r.Code, CauseText(r.Cause)
	}
}
