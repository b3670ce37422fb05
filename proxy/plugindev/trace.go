package plugindev

import (
	"fmt"
	"strings"
)

// Trace runs one request and describes the result for people: the upstream request, the client's response, and the fuel
// of each call.
func (v *Vector) Trace(b *Binding, stream bool) (text string, err error) {
	b.host.TakeLog()
	r := v.run(b, runMode{stream: stream})
	var out strings.Builder
	part := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&out, "-- %s --\n%s\n\n", title, strings.TrimRight(text, "\n"))
		}
	}
	part("to the provider", r.Request)
	part("warnings", r.Warnings)
	part("to the client", r.Response)
	if r.Err != nil {
		part("error", r.Err.Error())
	}
	part("log", strings.Join(b.host.TakeLog(), "\n"))
	part("most likely a mistake", strings.Join(r.Mistakes, "\n"))
	out.WriteString("-- fuel --\n")
	for i := 0; i < len(r.Calls); {
		n, first, total, most := i, r.Calls[i], int64(0), int64(0)
		for ; n < len(r.Calls) && r.Calls[n].Name == first.Name; n++ {
			total, most = total+r.Calls[n].Fuel, max(most, r.Calls[n].Fuel)
		}
		if calls := n - i; calls > 1 {
			fmt.Fprintf(&out, "%-18s %d in %d calls, %d at most\n", first.Name, total, calls, most)
		} else {
			fmt.Fprintf(&out, "%-18s %d\n", first.Name, total)
		}
		i = n
	}
	fmt.Fprintf(&out, "%-18s %.1f%% of its budget\n", "costliest call", 100*r.Cost.Share)
	return out.String(), r.Err
}

// Trace calls the router and describes the result for people.
func (r *Route) Trace(b *Binding) (text string, err error) { return traceOutcome(r, b) }

// Trace calls the filter and describes the result for people.
func (t *FilteredText) Trace(b *Binding) (text string, err error) { return traceOutcome(t, b) }

// traceOutcome runs a test case that is one call.
func traceOutcome(c testCase, b *Binding) (text string, err error) {
	b.host.TakeLog()
	o := c.outcome(b)
	var out strings.Builder
	out.WriteString(o.text)
	for _, part := range []struct {
		title string
		lines []string
	}{{"log", b.host.TakeLog()}, {"most likely a mistake", o.mistakes}} {
		if len(part.lines) > 0 {
			fmt.Fprintf(&out, "-- %s --\n%s\n", part.title, strings.Join(part.lines, "\n"))
		}
	}
	fmt.Fprintf(&out, "-- fuel --\n%d, %.1f%% of its budget\n", o.cost.Request+o.cost.Reading, 100*o.cost.Share)
	return out.String(), o.failure
}

// ReadAnswer returns an upstream's response. The extension of the file's name determines the framing: .json, .sse,
// .ndjson or .eventstream.
func ReadAnswer(name string, body []byte, status int) (Answer, error) {
	for _, f := range responseFiles {
		if strings.HasSuffix(name, f.extension) {
			return Answer{Body: body, Status: status, ContentType: f.contentType}, nil
		}
	}
	return Answer{}, fmt.Errorf("%s: the name of a response ends in .json, .sse, .ndjson or .eventstream", name)
}
