package plugin

import (
	"cmp"
	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Summary describes a request to a plugin: the input of provider_request, and a part of router_choose's. It does not
// contain the client's body. sdk/abi/README.md has the schema.
type Summary struct {
	RequestID string
	Time      time.Time
	Attempt   int    // 1 for the first target that is tried
	Random    uint64 // for plugins that choose at random; unrelated to the request

	// The client's request: set by Describe.
	Stream       bool
	IncludeUsage bool
	Model        string // as the client wrote it
	Flags        clientapi.Flags
	Body         int // bytes of the client's body

	// Form is the name of the API whose request the body is, and ClientForm of the one that the client uses: clientapi.API.Name, and
	// "chat" where they are empty. For a router, which has no body, they are the same. Betas are the words of the header
	// anthropic-beta of a client that uses Messages.
	Form, ClientForm string
	Betas            []string
	Tags             []string // that filters have set

	Target           string // the provider's name of the model
	MaxTokens        int64  // the model's maximum, 0 where none is configured
	DefaultMaxTokens int64  // for a provider that requires one and a client that set none; 0 where none is configured
	Options          []byte // JSON object: the target's options over the provider's; nil for none
}

// Describe sets the members that describe the client's request, of which a plugin gets a document of a size.
func (s *Summary) Describe(f *clientapi.Facts, size int) {
	s.Stream, s.IncludeUsage = f.Stream, f.IncludeUsage
	s.Model, s.Flags, s.Body = f.Model, f.Flags, size
}

// Append appends the summary as a JSON object that always has every member.
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
	dst = appendString(append(dst, `],"form":`...), cmp.Or(s.Form, chat))
	dst = appendString(append(dst, `,"client_form":`...), cmp.Or(s.ClientForm, chat))
	dst = append(dst, `,"betas":[`...)
	for i, b := range s.Betas {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, b)
	}
	dst = append(dst, `],"tags":[`...)
	for i, t := range s.Tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, t)
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

// chat is the name of the form that every provider accepts.
const chat = "chat"

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	// Names are short; the conversion stays on the stack where it is at most 32 bytes, and this runs once a request.
	dst = jsondoc.AppendEscaped(dst, []byte(s))
	return append(dst, '"')
}
