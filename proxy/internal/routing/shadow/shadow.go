// Package shadow compares the response to a request with the responses to copies of it that were sent to other targets,
// and counts the differences.
//
// A Recorder records a response as it is rendered, and a Response is the result. A Comparison calls Compare when the
// responses to both the client and a copy have ended, and Figures are the totals of a shadow target. Only numbers,
// finish reasons and, until the comparison, the names and arguments of tool calls are recorded, never text. The package
// does not decide when a copy is sent, and does not send it.
//
// Concurrency: a Recorder belongs to the goroutine of its response. A Response is immutable. Comparison, Copy and
// Figures are safe for concurrent use.
package shadow

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Response describes a response that has ended.
type Response struct {
	Status     int                // HTTP status; 200 for an aborted stream
	Complete   bool               // the response has reached its end
	Prompt     int64              // tokens of the prompt
	Completion int64              // tokens of the completion
	FirstEvent time.Duration      // time from the start of the attempt to the first event; 0 if there was none
	Duration   time.Duration      // time from the start of the attempt to the end of the response
	Finishes   []abi.FinishReason // by choice
	Calls      []Call             // sorted by choice and then by index

	// Truncated reports that Calls is incomplete, because the tool calls were too large to record.
	Truncated bool
}

// appendAttrs appends log attributes that describe the response. Their names start with a prefix.
func (r *Response) appendAttrs(attrs []slog.Attr, prefix string) []slog.Attr {
	return append(attrs, slog.Int(prefix+"_status", r.Status), slog.Bool(prefix+"_complete", r.Complete),
		slog.Int64(prefix+"_prompt_tokens", r.Prompt), slog.Int64(prefix+"_completion_tokens", r.Completion), slog.Int(prefix+"_tool_calls", len(r.Calls)),
		slog.Int64(prefix+"_first_event_ms", r.FirstEvent.Milliseconds()), slog.Int64(prefix+"_duration_ms", r.Duration.Milliseconds()))
}

// Call is a tool call.
type Call struct {
	choice, index int32
	Name          []byte // in JSON escapes, without quotes
	Arguments     []byte // JSON text, itself in JSON escapes without quotes
}

// Difference is a kind of difference between two responses.
type Difference uint8

// The kinds of differences. If only one of the responses is complete, Status is the only difference.
const (
	Status           Difference = iota // different HTTP statuses, or only one response is complete
	FinishReason                       // different finish reasons, or numbers of choices
	PromptTokens                       // different numbers of tokens
	CompletionTokens                   // different numbers of tokens
	ToolCalls                          // different numbers of tool calls
	ToolNames                          // equal numbers of calls, but to different tools
	ToolArguments                      // calls to the same tools, but with different JSON values

	differences = iota
)

var differenceNames = [differences]string{
	Status: "status", FinishReason: "finish_reason", PromptTokens: "prompt_tokens", CompletionTokens: "completion_tokens",
	ToolCalls: "tool_calls", ToolNames: "tool_names", ToolArguments: "tool_arguments",
}

// String returns the kind's name in metrics.
func (d Difference) String() string { return differenceNames[d] }

// Differences is a set of kinds of differences.
type Differences uint8

// Has reports whether a kind is in the set.
func (s Differences) Has(d Difference) bool { return s&(1<<d) != 0 }

// String returns the names of the kinds, separated by commas.
func (s Differences) String() string {
	var names []string
	for d, name := range differenceNames {
		if s.Has(Difference(d)) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Compare returns the differences between two responses. Tool calls are not compared if one response is Truncated.
func Compare(a, b *Response) (s Differences) {
	add := func(d Difference, differs bool) {
		if differs {
			s |= 1 << d
		}
	}
	add(Status, a.Status != b.Status || a.Complete != b.Complete)
	if !a.Complete || !b.Complete {
		return s
	}
	add(FinishReason, !slices.Equal(a.Finishes, b.Finishes))
	add(PromptTokens, a.Prompt != b.Prompt)
	add(CompletionTokens, a.Completion != b.Completion)
	switch {
	case a.Truncated || b.Truncated:
	case len(a.Calls) != len(b.Calls):
		add(ToolCalls, true)
	case !slices.EqualFunc(a.Calls, b.Calls, func(x, y Call) bool { return x.choice == y.choice && bytes.Equal(x.Name, y.Name) }):
		add(ToolNames, true)
	default:
		add(ToolArguments, !slices.EqualFunc(a.Calls, b.Calls, func(x, y Call) bool { return equalJSON(x.Arguments, y.Arguments) }))
	}
	return s
}

// equalJSON reports whether two JSON texts, both in JSON escapes, are the same value. The order of members, white space
// and the spelling of strings and numbers do not matter. Texts that are not valid JSON are compared byte by byte.
func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, ok := decode(a)
	if !ok {
		return false
	}
	y, ok := decode(b)
	return ok && equal(x, y)
}

func decode(escaped []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(jsondoc.AppendUnescaped(nil, escaped)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, err == io.EOF
}

func equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			if w, ok := y[name]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case json.Number:
		y, ok := b.(json.Number)
		return ok && equalNumbers(string(x), string(y))
	}
	return a == b
}

// equalNumbers compares integers of any size by their digits, and other numbers as float64.
func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a, ".eE") && !strings.ContainsAny(b, ".eE") {
		return false
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// Outcome is how a copy of a request ended.
type Outcome uint8

// The outcomes.
const (
	Answered  Outcome = iota // the response is complete
	Failed                   // the provider returned an error or aborted the response
	Cancelled                // the client disconnected, or the gateway is shutting down
	Dropped                  // not sent, or aborted, because clients' requests need the capacity
	Spent                    // not sent because a limit or budget of the provider is reached

	outcomes = iota
)

var outcomeNames = [outcomes]string{Answered: "answered", Failed: "failed", Cancelled: "cancelled", Dropped: "dropped", Spent: "spent"}

// String returns the outcome's name in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Figures are the totals of the copies that one shadow target of a model was sent. The zero value is empty.
type Figures struct {
	mu     sync.Mutex
	counts Counts
}

// Counts are a snapshot of Figures.
type Counts struct {
	Outcomes    [outcomes]int64    // copies by Outcome
	Compared    int64              // copies whose response was compared with the client's
	Differences [differences]int64 // compared copies by Difference
	Cost        cost.Nano          // cost of the copies

	// Client and Shadow are the sums for compared copies for which both responses are complete.
	Client, Shadow Sums
}

// Sums are sums over responses.
type Sums struct {
	Prompt, Completion   int64
	FirstEvent, Duration time.Duration
}

// Total returns the number of copies, sent or not.
func (c *Counts) Total() (n int64) {
	for _, count := range c.Outcomes {
		n += count
	}
	return n
}

// Ratios returns the time that the shadow took divided by the time that the responses to clients took, until the first
// event and until the end. A ratio is 0 if it is unknown.
func (c *Counts) Ratios() (firstEvent, duration float64) {
	ratio := func(a, b time.Duration) float64 {
		if b <= 0 {
			return 0
		}
		return float64(a) / float64(b)
	}
	return ratio(c.Shadow.FirstEvent, c.Client.FirstEvent), ratio(c.Shadow.Duration, c.Client.Duration)
}

func (s *Sums) add(r *Response) {
	s.Prompt += r.Prompt
	s.Completion += r.Completion
	s.FirstEvent += r.FirstEvent
	s.Duration += r.Duration
}

// End counts a copy that has ended, and adds its cost.
func (f *Figures) End(o Outcome, spent cost.Nano) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Outcomes[o]++
	f.counts.Cost = f.counts.Cost.Plus(spent)
}

// Compare compares the response to a client with the response to a copy of its request, counts the differences, and
// returns them.
func (f *Figures) Compare(client, copied *Response) Differences {
	s := Compare(client, copied)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Compared++
	for d := range Difference(differences) {
		if s.Has(d) {
			f.counts.Differences[d]++
		}
	}
	if client.Complete && copied.Complete {
		f.counts.Client.add(client)
		f.counts.Shadow.add(copied)
	}
	return s
}

// Counts returns a snapshot of the totals.
func (f *Figures) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}
