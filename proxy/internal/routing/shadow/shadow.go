// Package shadow compares the responses to a request and to its copy that another target was sent, and adds up what differs.
//
// It owns what is noted of a response (Recorder, Response), the comparison (Compare) once both responses are there (Comparison), and the
// figures of each shadow (Figures). What is
// noted of a response are numbers, its finish reasons, and until they have been compared the names and arguments of its tool calls: never
// its text. It does not know when a shadow is sent, or how.
//
// Concurrency: a Recorder belongs to the goroutine of its response. A Response does not change. A Comparison and Figures are safe for concurrent use.
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

// Response is what is known of a response that has ended.
type Response struct {
	Status     int                // of HTTP; 200 for a stream that broke off
	Complete   bool               // to its end
	Prompt     int64              // tokens
	Completion int64              // tokens
	FirstEvent time.Duration      // from the start of the attempt; 0: there was none
	Duration   time.Duration      // from the start of the attempt to the end of the response
	Finishes   []abi.FinishReason // by choice
	Calls      []Call             // in the order of choices, and within one in the order in which they began

	// Truncated says that there was more in Calls than is kept.
	Truncated bool
}

// appendAttrs appends the figures of a response for a log; the names begin with whose response it is.
func (r *Response) appendAttrs(attrs []slog.Attr, whose string) []slog.Attr {
	return append(attrs, slog.Int(whose+"_status", r.Status), slog.Bool(whose+"_complete", r.Complete),
		slog.Int64(whose+"_prompt_tokens", r.Prompt), slog.Int64(whose+"_completion_tokens", r.Completion), slog.Int(whose+"_tool_calls", len(r.Calls)),
		slog.Int64(whose+"_first_event_ms", r.FirstEvent.Milliseconds()), slog.Int64(whose+"_duration_ms", r.Duration.Milliseconds()))
}

// Call is a tool call.
type Call struct {
	choice, index int32
	Name          []byte // as the inside of a JSON string
	Arguments     []byte // the same, of a JSON text
}

// Difference is a kind of difference between two responses.
type Difference uint8

// The kinds. Where only one of two responses is complete, Status is the only one.
const (
	Status           Difference = iota // another status, or one of the two is not complete
	FinishReason                       // of a choice, or another number of choices
	PromptTokens                       // another number
	CompletionTokens                   // another number
	ToolCalls                          // another number
	ToolNames                          // as many calls, but of other tools
	ToolArguments                      // of the same tools, but with arguments that are another JSON value

	differences = iota
)

var differenceNames = [differences]string{
	Status: "status", FinishReason: "finish_reason", PromptTokens: "prompt_tokens", CompletionTokens: "completion_tokens",
	ToolCalls: "tool_calls", ToolNames: "tool_names", ToolArguments: "tool_arguments",
}

// String returns the name of the kind in metrics.
func (d Difference) String() string { return differenceNames[d] }

// Differences is a set of kinds.
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

// Compare returns what differs between two responses. Arguments beyond what was kept are not compared.
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

// equalJSON reports whether two JSON texts, each the inside of a string, are the same value: the order of members, white space and the
// spelling of strings and of numbers do not matter. Texts that are no JSON are compared as they are.
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

func decode(inside []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(jsondoc.AppendUnescaped(nil, inside)))
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
			if w, there := y[name]; !there || !equal(v, w) {
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

// equalNumbers compares integers by their digits, whatever their size, and other numbers as a float64 has them.
func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a, ".eE") && !strings.ContainsAny(b, ".eE") {
		return false
	}
	x, failed := strconv.ParseFloat(a, 64)
	y, failedToo := strconv.ParseFloat(b, 64)
	return failed == nil && failedToo == nil && x == y
}

// Outcome is what became of a copy.
type Outcome uint8

// The outcomes.
const (
	Answered  Outcome = iota // with a response that is complete
	Failed                   // with an error, or a response that broke off
	Cancelled                // its client has left, or the gateway is shutting down
	Dropped                  // not sent, or given up, for want of room: the gateway has clients to serve
	Spent                    // not sent: a limit or budget of its provider is reached

	outcomes = iota
)

var outcomeNames = [outcomes]string{Answered: "answered", Failed: "failed", Cancelled: "cancelled", Dropped: "dropped", Spent: "spent"}

// String returns the name of the outcome in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// Figures count what came of the copies that one shadow of a model was sent. The zero value is empty.
type Figures struct {
	mu     sync.Mutex
	counts Counts
}

// Counts are figures at one time.
type Counts struct {
	Outcomes    [outcomes]int64
	Compared    int64 // copies that were compared with the response to their client
	Differences [differences]int64
	Cost        cost.Nano // of the copies

	// Sums over the compared copies of which both responses are complete.
	Client, Shadow Sums
}

// Sums are sums over responses.
type Sums struct {
	Prompt, Completion   int64
	FirstEvent, Duration time.Duration
}

// Total returns how many copies there were.
func (c *Counts) Total() (n int64) {
	for _, of := range c.Outcomes {
		n += of
	}
	return n
}

// Ratios returns how long the responses of the shadow took by how long those to clients took, to the first event and to the end; 0 where that
// is not known.
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

// End counts a copy that has ended, with what it has cost.
func (f *Figures) End(o Outcome, spent cost.Nano) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Outcomes[o]++
	f.counts.Cost = f.counts.Cost.Plus(spent)
}

// Compare compares the response to a client with that to its copy, counts the differences, and returns them.
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

// Counts returns the figures.
func (f *Figures) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}
