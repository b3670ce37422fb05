package clientapi

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Facts holds the properties of a request that the gateway uses, whatever the API.
type Facts struct {
	Model         string // a copy that outlives the request
	Stream        bool
	IncludeUsage  bool // the client asks for usage at the end of a stream
	FunctionCalls bool // the client uses functions instead of tools, so its response has function_call instead of tool_calls
	N             int  // number of choices asked for, 1 if unset
	BestOf        int  // number of choices to generate, of which the best N are returned; 0 if unset
	MaxTokens     int64
	Thinking      Thinking
	Flags         Flags
	Warnings      []Warning // changes made while the request was read and fitted, without duplicates

	Messages int // number of messages
	Tools    int // number of tools and functions
	Images   int // number of images

	// TextBytes is the number of bytes of the body that a model reads as text: contents, names and arguments of tool
	// calls, tool definitions, and reasoning that is sent back, but no images, audio or files. Escape sequences count
	// as written. It is the basis of token estimates.
	TextBytes int
}

// Generated returns the number of choices that the provider generates and bills.
func (f *Facts) Generated() int { return max(f.N, f.BestOf) }

// Warn records a warning unless it is recorded already.
func (f *Facts) Warn(kind abi.WarnKind, path string) { f.Warnings = AddWarning(f.Warnings, kind, path) }

// ThinkingMode tells whether a request asks for extended thinking.
type ThinkingMode uint8

// The modes, with the value of thinking.type.
const (
	ThinkingUnset    ThinkingMode = iota // thinking is absent or null
	ThinkingEnabled                      // "enabled"
	ThinkingDisabled                     // "disabled"
	ThinkingAdaptive                     // "adaptive": the model decides how much to think
)

// Thinking holds the member thinking.
type Thinking struct {
	Mode         ThinkingMode
	BudgetTokens int64 // 0 if unset
}

// Asked reports whether the request asks for extended thinking.
func (t Thinking) Asked() bool { return t.Mode == ThinkingEnabled || t.Mode == ThinkingAdaptive }

// Warning describes a change of the gateway to a request.
type Warning struct {
	Kind   abi.WarnKind
	Member string // path of the member, in printable ASCII
}

// AddWarning adds a warning to a list unless the list contains it.
func AddWarning(list []Warning, kind abi.WarnKind, path string) []Warning {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		quoted := strconv.QuoteToASCII(path)
		path = quoted[1 : len(quoted)-1]
	}
	w := Warning{kind, path[:min(len(path), abi.MaxName-1)]}
	for _, o := range list {
		if o == w {
			return list
		}
	}
	return append(list, w)
}

// Limits bounds requests where their API specifies no limit. A zero field means the default. Each default is above the
// limit of every provider, and only keeps the cost of processing a request in proportion to its size.
type Limits struct {
	Messages  int // messages; default 100,000
	Tools     int // tools, and legacy functions; default 1,024
	ToolCalls int // tool calls of one message; default 128
	Stop      int // stop sequences; default 16
	LogitBias int // entries of logit_bias; default 1,024
	Depth     int // levels of arrays and objects; default 128
	Nodes     int // values and member names; default 1,048,576

	// Source is the document that the request was made from, if there is one (jsondoc.Limits.Source).
	Source *jsondoc.Doc
}

// WithDefaults returns l with zeros replaced by defaults.
func (l Limits) WithDefaults() Limits {
	for _, m := range [...]struct {
		limit    *int
		standard int
	}{
		{&l.Messages, 100_000},
		{&l.Tools, 1024},
		{&l.ToolCalls, 128},
		{&l.Stop, 16},
		{&l.LogitBias, 1024},
		{&l.Depth, jsondoc.DefaultDepth},
		{&l.Nodes, jsondoc.DefaultNodes},
	} {
		if *m.limit <= 0 {
			*m.limit = m.standard
		}
	}
	return l
}

// Document returns the limits of the JSON document.
func (l *Limits) Document() jsondoc.Limits {
	return jsondoc.Limits{Depth: l.Depth, Nodes: l.Nodes, Source: l.Source}
}

// Lowered returns the limits of the chat completions request that Request.AppendChat writes for a request within l.
// That may be nested deeper and have more values and messages, because a message of another API can become several
// messages.
func (l Limits) Lowered() Limits {
	l = l.WithDefaults()
	l.Depth += 4
	l.Nodes *= 4
	l.Messages = l.Nodes
	return l
}

// MaxTokensCeiling limits max_tokens and thinking budgets if the model's maximum is unknown. Providers read them as
// 32-bit integers.
const MaxTokensCeiling = 1<<31 - 1
