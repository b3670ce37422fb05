package telemetry

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The states of requests in a RecentQuery.
const (
	StateInFlight = "in_flight"
	StateEnded    = "ended"
)

// RecentQuery selects requests of a Recent. Zero values select all.
type RecentQuery struct {
	ID     string // of the request, of its response, or the provider's of the request
	Key    string
	Model  string
	Target string // PROVIDER or PROVIDER/MODEL of any attempt
	Status string // such as 429, or 5xx
	Code   string
	State  string    // StateInFlight or StateEnded
	Since  time.Time // of the request's start
	Failed bool      // only requests that failed, and those in flight with a failed attempt
	Before uint64    // only requests whose Seq is smaller; not those in flight
	Limit  int       // maximum number of requests
}

func (q *RecentQuery) selects(s *slot) bool {
	r := &s.record
	switch {
	case q.Before != 0 && s.seq >= q.Before,
		q.Key != "" && r.Key != q.Key,
		q.Model != "" && r.Model != q.Model,
		q.Code != "" && r.Code != q.Code,
		r.Began.Before(q.Since):
		return false
	case q.ID != "" && r.RequestID != q.ID && r.UpstreamID != q.ID && string(s.response) != q.ID:
		return false
	case q.Target != "" && !s.hasTarget(q.Target):
		return false
	case q.Failed && !s.failed():
		return false
	}
	return q.Status == "" || s.seq != 0 && matchesStatus(q.Status, r.Status)
}

// matchesStatus reports whether a status is the wanted one, or in the wanted class, such as 5xx.
func matchesStatus(want string, status int) bool {
	text := strconv.Itoa(status)
	if class, ok := strings.CutSuffix(want, "xx"); ok {
		return strings.HasPrefix(text, class)
	}
	return text == want
}

func (s *slot) hasTarget(name string) bool {
	provider, model, both := strings.Cut(name, "/")
	is := func(p, m string) bool { return p == provider && (!both || m == model) }
	for i := range s.tries {
		if is(s.tries[i].Provider, s.tries[i].Target) {
			return true
		}
	}
	return is(s.record.Provider, s.record.Target)
}

func (s *slot) failed() bool {
	if s.seq != 0 {
		return s.record.Status >= 400 || s.record.Code != ""
	}
	for i := range s.tries {
		if s.tries[i].Code != "" {
			return true
		}
	}
	return false
}

// AppendJSON appends the request as a JSON object: the fields of its line in the access log, and what the log does not
// have. now is the time until which a request in flight has taken.
func (e *Entry) AppendJSON(dst []byte, now time.Time) []byte {
	o := object{line{buf: dst, json: true}}
	o.buf = append(o.buf, `{"time":"`...)
	o.buf = append(e.Began.UTC().AppendFormat(o.buf, "2006-01-02T15:04:05.000000Z07:00"), '"')
	state, ended := StateEnded, e.Ended
	if e.Seq == 0 {
		state, ended = StateInFlight, now
	} else {
		o.number("seq", int64(e.Seq))
	}
	o.text("state", state)
	e.writeFields(max(ended.Sub(e.Began), 0), &o)
	text := func(name, v string) {
		if v != "" {
			o.text(name, v)
		}
	}
	text("cause", e.CauseWas)
	text("team", e.Team)
	principal, identity := e.Principal()
	text("principal", principal)
	text("identity", identity)
	text("response", string(e.ResponseID))
	if e.Admitted > 0 {
		o.duration("admitted_ms", e.Admitted)
	}
	text("warnings", e.Warnings)
	text("route", e.RouteWas)
	if e.Generation > 0 {
		o.number("generation", e.Generation)
	}
	if e.Shadow {
		o.bool("shadow", true)
	}
	if len(e.Filters) > 0 {
		o.buf = append(o.buf, `,"filters":[`...)
		for i := range e.Filters {
			f := &e.Filters[i]
			if i > 0 {
				o.buf = append(o.buf, ',')
			}
			o.buf = append(o.buf, `{"filter":`...)
			o.buf = strconv.AppendInt(o.buf, int64(i+1), 10)
			o.text("decision", f.Decision)
			f.Plugin.append(&o)
			o.buf = append(o.buf, '}')
		}
		o.buf = append(o.buf, ']')
	}
	if len(e.Tries) > 0 {
		o.buf = append(o.buf, `,"tries":[`...)
		for i := range e.Tries {
			e.appendAttempt(&o, i, now)
		}
		o.buf = append(o.buf, ']')
	}
	return append(o.buf, '}')
}

func (e *Entry) appendAttempt(o *object, i int, now time.Time) {
	t := &e.Tries[i]
	if i > 0 {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, `{"attempt":`...)
	o.buf = strconv.AppendInt(o.buf, int64(i+1), 10)
	o.text("provider", t.Provider)
	o.text("target", t.Target)
	if t.Why != "" {
		o.text("why", t.Why)
	}
	o.duration("began_ms", t.Began.Sub(e.Began))
	took := t.Took
	if took == 0 && e.Seq == 0 && t.Code == "" {
		took = now.Sub(t.Began)
	}
	o.duration("duration_ms", max(took, 0))
	if t.First > 0 {
		o.duration("first_event_ms", t.First)
	}
	if t.Status != 0 {
		o.number("status", int64(t.Status))
	}
	if t.Code != "" {
		o.text("code", t.Code)
	}
	if t.Cause != "" {
		o.text("cause", t.Cause)
	}
	t.Plugin.append(o)
	o.buf = append(o.buf, '}')
}

// append appends the members of an object that describe the plugin.
func (p *PluginUse) append(o *object) {
	if p.Name != "" {
		o.text("plugin", p.Name)
	}
	if p.Digest != "" {
		o.text("plugin_sha256", p.Digest)
	}
	if p.Fuel > 0 {
		o.number("fuel", p.Fuel)
	}
}

// object is a fieldWriter for a JSON object, whose texts may contain anything.
type object struct{ line }

func (o *object) text(name, v string) {
	o.name(name)
	text, _ := json.Marshal(v) // does not fail for a string
	o.buf = append(o.buf, text...)
}
