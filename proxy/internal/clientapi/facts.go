package clientapi

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Facts is what the gateway has to know of a request, however it is written.
type Facts struct {
	Model         string // a copy: it may be kept
	Stream        bool
	IncludeUsage  bool // the client asks for usage at the end of a stream
	FunctionCalls bool // the client knows functions, not tools: its response has function_call in place of tool_calls
	N             int  // choices asked for, 1 if unset
	BestOf        int  // choices that the provider is to generate, and returns the best N of; 0 if unset
	MaxTokens     int64
	Thinking      Thinking
	Flags         Flags
	Warnings      []Warning // what was changed when the request was read and fitted, without repetition

	Messages int // how many messages, tools and images there are
	Tools    int
	Images   int

	// TextBytes is how many bytes of the body a model reads as text: contents, names and arguments of tools and their
	// definitions, reasoning that is sent back, but no image, audio or file. Escape sequences count as they are written.
	// It is what a token estimate starts from.
	TextBytes int
}

// Generated is how many choices the provider generates, and bills.
func (f *Facts) Generated() int { return max(f.N, f.BestOf) }

// Warn records a warning, once.
func (f *Facts) Warn(kind abi.WarnKind, path string) { f.Warnings = AddWarning(f.Warnings, kind, path) }

// ThinkingMode is whether a request asks for extended thinking.
type ThinkingMode uint8

// The modes: the type of the member thinking.
const (
	ThinkingUnset    ThinkingMode = iota // no member thinking, or null
	ThinkingEnabled                      // "enabled"
	ThinkingDisabled                     // "disabled"
	ThinkingAdaptive                     // "adaptive": the model decides how much
)

// Thinking is the member thinking.
type Thinking struct {
	Mode         ThinkingMode
	BudgetTokens int64 // 0 if unset
}

// Asked reports whether the request asks for extended thinking.
func (t Thinking) Asked() bool { return t.Mode == ThinkingEnabled || t.Mode == ThinkingAdaptive }

// Warning says what the gateway changed in a request.
type Warning struct {
	Kind   abi.WarnKind
	Member string // the path of the member, in printable ASCII
}

// AddWarning adds a warning to a list that has each one once.
func AddWarning(list []Warning, kind abi.WarnKind, path string) []Warning {
	quoted := strconv.QuoteToASCII(path)
	w := Warning{kind, quoted[1:min(len(quoted)-1, abi.MaxName)]}
	for _, o := range list {
		if o == w {
			return list
		}
	}
	return append(list, w)
}

// Limits bounds a request beyond what its API itself specifies. A zero member is its default. Each limit is above what
// any provider accepts, and is there so that no request costs more than its bytes justify.
type Limits struct {
	Messages  int // messages; default 100,000
	Tools     int // tools, and legacy functions; default 1,024
	ToolCalls int // tool calls of one message; default 128
	Stop      int // stop sequences; default 16
	LogitBias int // entries of logit_bias; default 1,024
	Depth     int // levels of arrays and objects; default 128
	Nodes     int // values and member names; default 1,048,576
}

// WithDefaults returns l with defaults in place of zeros.
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

// Document are the limits of the JSON document.
func (l *Limits) Document() jsondoc.Limits { return jsondoc.Limits{Depth: l.Depth, Nodes: l.Nodes} }

// Lowered are the limits of the chat completions request that Request.AppendChat writes for a request within l. It may nest
// deeper, and has more values and messages: one message of another API may become several.
func (l Limits) Lowered() Limits {
	l = l.WithDefaults()
	l.Depth += 4
	l.Nodes *= 4
	l.Messages = l.Nodes
	return l
}

// MaxTokensCeiling bounds max_tokens and thinking budgets where no model's maximum is known: providers read them as
// 32-bit integers.
const MaxTokensCeiling = 1<<31 - 1
