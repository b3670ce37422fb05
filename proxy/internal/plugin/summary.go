package plugin

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Summary is what a plugin is told of a request: the input of provider_request, and a part of router_choose's. The
// client's body is not in it. sdk/abi/README.md has the schema.
type Summary struct {
	RequestID string
	Time      time.Time
	Attempt   int    // 1 for the first target that is tried
	Random    uint64 // for a plugin that draws lots; says nothing of the request

	// What the client asked for: Describe sets these.
	Stream       bool
	IncludeUsage bool
	Model        string // as the client wrote it
	Flags        openai.Flags
	Body         int // bytes of the client's body

	Target           string // the provider's name of the model
	MaxTokens        int64  // the model's maximum, 0 where none is configured
	DefaultMaxTokens int64  // for a provider that needs one and a client that said none; 0 where none is configured
	Options          []byte // JSON object: the target's options over the provider's; nil for none
}

// Describe sets what the client asked for.
func (s *Summary) Describe(r *openai.Request) {
	s.Stream, s.IncludeUsage = r.Stream, r.IncludeUsage
	s.Model, s.Flags, s.Body = r.Model, r.Flags, len(r.Body)
}

// Append appends the summary as a JSON object. Every member is always there.
func (s *Summary) Append(dst []byte) []byte {
	dst = appendString(append(dst, `{"request_id":`...), s.RequestID)
	dst = strconv.AppendInt(append(dst, `,"time":`...), s.Time.UnixMilli(), 10)
	dst = strconv.AppendInt(append(dst, `,"attempt":`...), int64(s.Attempt), 10)
	dst = append(dst, `,"random":"`...)
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[s.Random>>shift&15])
	}
	dst = strconv.AppendBool(append(dst, `","stream":`...), s.Stream)
	dst = strconv.AppendBool(append(dst, `,"include_usage":`...), s.IncludeUsage)
	dst = appendString(append(dst, `,"model":`...), s.Model)
	dst = appendString(append(dst, `,"target":`...), s.Target)
	dst = strconv.AppendInt(append(dst, `,"limits":{"max_tokens":`...), s.MaxTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"default_max_tokens":`...), s.DefaultMaxTokens, 10)
	dst = append(dst, `},"flags":[`...)
	for i, f := range s.Flags.Names() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, f)
	}
	dst = strconv.AppendInt(append(dst, `],"body":`...), int64(s.Body), 10)
	dst = append(dst, `,"options":`...)
	if len(s.Options) == 0 {
		dst = append(dst, '{', '}')
	} else {
		dst = append(dst, s.Options...)
	}
	return append(dst, '}')
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	// Names are short; the conversion stays on the stack where it is at most 32 bytes, and this runs once a request.
	dst = jsondoc.AppendEscaped(dst, []byte(s))
	return append(dst, '"')
}
