package plugin

import (
	"cmp"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Summary describes a request to a plugin: it is the input of provider_request, and a part of the input of
// router_choose. It does not contain the client's body. sdk/abi/README.md has the schema.
type Summary struct {
	RequestID string
	Time      time.Time
	Attempt   int    // 1 for the first target that is tried
	Random    uint64 // for plugins that choose at random; unrelated to the request

	// Set by Describe from the client's request.
	Stream       bool
	IncludeUsage bool
	Model        string // as the client wrote it
	Flags        clientapi.Flags
	Body         int // size in bytes of the document that the plugin gets

	// Form is the name of the API in whose format the body is, ClientForm of the API that the client uses, as in
	// clientapi.API.Name. Empty means "chat". For a router, which gets no body, they are equal. Betas are the values of
	// the anthropic-beta header of a client that uses the Messages API.
	Form, ClientForm string
	Betas            []string
	Tags             []string // set by filters

	Target           string // the provider's name for the model
	MaxTokens        int64  // the model's maximum; 0 if none is configured
	DefaultMaxTokens int64  // for a provider that requires a maximum when the client set none; 0 if none is configured
	Options          []byte // JSON object: the provider's options overridden by the target's; nil for none
}

// Describe sets the fields that describe the client's request. size is the size of the document that the plugin gets.
func (s *Summary) Describe(f *clientapi.Facts, size int) {
	s.Stream, s.IncludeUsage = f.Stream, f.IncludeUsage
	s.Model, s.Flags, s.Body = f.Model, f.Flags, size
}

// Append appends the summary as a JSON object. All members are always present.
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
	dst = appendStrings(append(dst, `,"betas":`...), s.Betas)
	dst = appendStrings(append(dst, `,"tags":`...), s.Tags)
	dst = strconv.AppendInt(append(dst, `,"body":`...), int64(s.Body), 10)
	dst = append(dst, `,"options":`...)
	if len(s.Options) == 0 {
		dst = append(dst, '{', '}')
	} else {
		dst = append(dst, s.Options...)
	}
	return append(dst, '}')
}

// appendSummary appends the summary of the call's attempt, in the form that the plugin reads.
func (c *call) appendSummary(dst []byte) []byte {
	s := &c.attempt.Summary
	if !c.plugin.exports[exportSummary] {
		return s.Append(dst)
	}
	return s.appendCompact(dst, c.binding.summary)
}

// appendCompact appends the compact summary. See sdk/abi/README.md for the layout.
func (s *Summary) appendCompact(dst []byte, parts abi.SummaryParts) []byte {
	var flags abi.SummaryFlags
	if s.Stream {
		flags |= abi.SummaryStream
	}
	if s.IncludeUsage {
		flags |= abi.SummaryIncludeUsage
	}
	var id string
	var now int64
	var random, size uint64
	if parts&abi.SummaryRequestID != 0 {
		id = s.RequestID
	}
	if parts&abi.SummaryTime != 0 {
		now = s.Time.UnixMilli()
	}
	if parts&abi.SummaryRandom != 0 {
		random = s.Random
	}
	if parts&abi.SummaryBody != 0 {
		size = uint64(s.Body)
	}
	options := s.Options
	if len(options) == 0 {
		options = noOptions
	}
	le, head := binary.LittleEndian, len(dst)
	for _, n := range [...]uint32{
		abi.SummaryHeadSize, uint32(flags), uint32(s.Flags), uint32(formNumber(s.Form)), uint32(formNumber(s.ClientForm)), uint32(s.Attempt),
		uint32(len(id)), uint32(len(s.Model)), uint32(len(s.Target)), 0, 0, uint32(len(options)),
	} {
		dst = le.AppendUint32(dst, n)
	}
	for _, n := range [...]uint64{uint64(now), random, uint64(s.MaxTokens), uint64(s.DefaultMaxTokens), size} {
		dst = le.AppendUint64(dst, n)
	}
	dst = append(append(append(dst, id...), s.Model...), s.Target...)
	before := len(dst)
	dst = appendStrings(dst, s.Betas)
	le.PutUint32(dst[head+36:], uint32(len(dst)-before))
	before = len(dst)
	dst = appendStrings(dst, s.Tags)
	le.PutUint32(dst[head+40:], uint32(len(dst)-before))
	return append(dst, options...)
}

var noOptions = []byte("{}")

// formNumber returns the number of a form by its name.
func formNumber(name string) abi.Forms {
	for i, n := range formNames {
		if n == name {
			return 1 << i
		}
	}
	return abi.FormChat
}

// formNames are the names of the forms, from FormMessages on.
var formNames = [...]string{"messages", "responses", "gemini", "completions", "embeddings", "moderations", "rerank"}

// appendStrings appends an array of strings as JSON.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// chat is the name of the form that every provider accepts.
const chat = "chat"

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	// The conversion does not allocate for up to 32 bytes. Names are short, and this runs once per request.
	dst = jsondoc.AppendEscaped(dst, []byte(s))
	return append(dst, '"')
}
