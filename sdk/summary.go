package sdk

import "github.com/sluice-gateway/sluice/sdk/json"

// Flags says what a request asks for, as far as a plugin may want to decide by it without reading the body.
type Flags uint32

// The flags. The name in the comment is the one in the summary.
const (
	FlagTools            Flags = 1 << iota // tools: there are tools
	FlagToolHistory                        // tool_history: a message is a tool result or holds tool calls
	FlagThinking                           // thinking: the member thinking asks for reasoning
	FlagReasoning                          // reasoning: there is a reasoning_effort
	FlagReasoningHistory                   // reasoning_history: a message holds reasoning of an earlier turn
	FlagImages                             // images: a message holds an image
	FlagFiles                              // files: a message holds a file
	FlagAudio                              // audio: a message holds audio, or audio is asked for
	FlagResponseFormat                     // response_format: a form other than text is asked for
	FlagLogprobs                           // logprobs: they are asked for
	FlagParallelTools                      // parallel_tools: there is a parallel_tool_calls
	FlagCacheControl                       // cache_control: a message, part or tool has one
)

var flagNames = json.NewShape("tools", "tool_history", "thinking", "reasoning", "reasoning_history", "images", "files", "audio",
	"response_format", "logprobs", "parallel_tools", "cache_control")

// Summary is what the gateway says of a request beside its body.
type Summary struct {
	RequestID    []byte
	Time         int64  // Unix time in milliseconds
	Attempt      int64  // 1 for the first target that is tried, then 2, …
	Random       uint64 // for drawing lots; it says nothing of the request
	Stream       bool   // the client asks for a stream
	IncludeUsage bool   // the client asks for the usage in its stream
	Model        []byte // as the client asked
	Target       []byte // the model's name with this provider; empty for a router

	MaxTokens        int64 // the model's limit, 0 if it is not known
	DefaultMaxTokens int64 // for a request without one, 0 if it is not known

	Flags    Flags
	BodySize int64      // the size of the client's body in bytes
	Options  json.Value // the target's table over the provider's; an object
}

// Has says whether all of the flags are set.
func (s *Summary) Has(f Flags) bool { return s.Flags&f == f }

// The members of a summary.
const (
	summaryRequestID = iota
	summaryTime
	summaryAttempt
	summaryRandom
	summaryStream
	summaryIncludeUsage
	summaryModel
	summaryTarget
	summaryMaxTokens
	summaryDefaultMaxTokens
	summaryFlags
	summaryBody
	summaryOptions
)

var summaryShape = json.NewShape("request_id", "time", "attempt", "random", "stream", "include_usage", "model", "target",
	"limits.max_tokens", "limits.default_max_tokens", "flags", "body", "options")

// Parse reads a summary that is a document of its own: the input of provider_request.
func (s *Summary) Parse(doc []byte) error {
	if s.quick(doc) {
		return nil
	}
	var in json.Reader
	in.Reset(doc)
	s.Read(&in)
	return in.End()
}

// Read reads the summary that r stands at. Unknown members are skipped; whether the document was broken is seen from
// r. The summary's slices are ranges of the document.
func (s *Summary) Read(r *json.Reader) {
	var m json.Members
	r.Members(&m, summaryShape)
	s.RequestID, s.Model, s.Target = m.Text(summaryRequestID), m.Text(summaryModel), m.Text(summaryTarget)
	s.Time, _ = m.Int(summaryTime)
	s.Attempt, _ = m.Int(summaryAttempt)
	s.Random = readHex(m.Inside(summaryRandom))
	s.Stream, _ = m.Bool(summaryStream)
	s.IncludeUsage, _ = m.Bool(summaryIncludeUsage)
	s.MaxTokens, _ = m.Int(summaryMaxTokens)
	s.DefaultMaxTokens, _ = m.Int(summaryDefaultMaxTokens)
	s.BodySize, _ = m.Int(summaryBody)
	s.Options = m.Raw(summaryOptions)
	s.Flags = readFlags(m.Raw(summaryFlags))
}

// readHex reads up to 16 hexadecimal digits in lower case.
func readHex(digits []byte) (n uint64) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return 0
		}
		n = n<<4 | uint64(c)
	}
	return n
}

func readFlags(names json.Value) (f Flags) {
	if len(names) <= len("[]") {
		return 0
	}
	var r json.Reader
	r.Reset(names)
	for a := r.Array(); a.Next(); {
		if i := flagNames.Find(r.Text()); i >= 0 {
			f |= 1 << i
		}
	}
	return f
}
