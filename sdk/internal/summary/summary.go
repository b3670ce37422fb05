// Package summary parses the summary of a request, which is the input of provider_request and part of the input of
// router_choose and filter_request. It owns the names in that document; the parsed form is sdk.Summary.
package summary

import (
	"encoding/binary"
	"errors"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Reader parses summaries. The zero value is ready to use. It remembers the order of the members, which makes later
// summaries cheaper. It is not safe for concurrent use.
type Reader struct {
	document json.Reader
	flags    json.Reader
	members  json.Members
}

// The members of a summary.
const (
	requestID = iota
	time
	attempt
	random
	stream
	includeUsage
	model
	target
	maxTokens
	defaultMaxTokens
	flags
	form
	clientForm
	betas
	tags
	body
	options
)

var shape = json.NewShape("request_id", "time", "attempt", "random", "stream", "include_usage", "model", "target",
	"limits.max_tokens", "limits.default_max_tokens", "flags", "form", "client_form", "betas", "tags", "body", "options")

// flagNames are the names of the flags, in the order of their bits.
var flagNames = json.NewShape("tools", "tool_history", "thinking", "reasoning", "reasoning_history", "images", "files", "audio",
	"response_format", "logprobs", "parallel_tools", "cache_control", "tool_names")

// Parse parses a document that consists of a summary, or the compact summary.
func (r *Reader) Parse(s *sdk.Summary, document []byte) error {
	if len(document) >= 4 && document[2] == 0 && document[3] == 0 {
		return readCompact(s, document)
	}
	r.document.ResetChecked(document)
	r.Read(s, &r.document)
	return r.document.End()
}

// Read reads the summary at the position of in and ignores unknown members. The caller checks in for invalid JSON. The
// summary's slices share the memory of the document.
func (r *Reader) Read(s *sdk.Summary, in *json.Reader) {
	m := &r.members
	in.Members(m, shape)
	s.RequestID, s.Model, s.Target = m.Text(requestID), m.Text(model), m.Text(target)
	s.Time, _ = m.Int(time)
	s.Attempt, _ = m.Int(attempt)
	s.Random = ParseHex(m.Inside(random))
	s.Stream, _ = m.Bool(stream)
	s.IncludeUsage, _ = m.Bool(includeUsage)
	s.MaxTokens, _ = m.Int(maxTokens)
	s.DefaultMaxTokens, _ = m.Int(defaultMaxTokens)
	s.BodySize, _ = m.Int(body)
	s.Options = m.Raw(options)
	s.Form, s.ClientForm = parseForm(m.Inside(form)), parseForm(m.Inside(clientForm))
	s.Betas, s.Tags = m.Raw(betas), m.Raw(tags)
	s.Flags = 0
	if names := m.Raw(flags); len(names) > len("[]") {
		r.flags.Reset(names)
		for a := r.flags.Array(); a.Next(); {
			if i := flagNames.Find(r.flags.Text()); i >= 0 {
				s.Flags |= 1 << i
			}
		}
	}
}

var errCompact = errors.New("the gateway's compact summary is not valid")

// readCompact reads the compact summary, as specified in the section "Compact summary" of sdk/abi/README.md. The
// summary's slices share the memory of the document.
func readCompact(s *sdk.Summary, p []byte) error {
	if len(p) < abi.SummaryHeadSize {
		return errCompact
	}
	le, head := binary.LittleEndian, p[:abi.SummaryHeadSize]
	size := uint64(le.Uint32(head))
	if size < abi.SummaryHeadSize || size > uint64(len(p)) {
		return errCompact
	}
	flags := abi.SummaryFlags(le.Uint32(head[4:]))
	s.Stream, s.IncludeUsage = flags&abi.SummaryStream != 0, flags&abi.SummaryIncludeUsage != 0
	s.Flags = sdk.Flags(le.Uint32(head[8:]))
	s.Form, s.ClientForm = knownForm(le.Uint32(head[12:])), knownForm(le.Uint32(head[16:]))
	s.Attempt = int64(le.Uint32(head[20:]))
	s.Time, s.Random = int64(le.Uint64(head[48:])), le.Uint64(head[56:])
	s.MaxTokens, s.DefaultMaxTokens = int64(le.Uint64(head[64:])), int64(le.Uint64(head[72:]))
	s.BodySize = int64(le.Uint64(head[80:]))
	texts := p[size:]
	for i, to := range [...]*[]byte{&s.RequestID, &s.Model, &s.Target, (*[]byte)(&s.Betas), (*[]byte)(&s.Tags), (*[]byte)(&s.Options)} {
		n := le.Uint32(head[24+4*i:])
		if uint64(n) > uint64(len(texts)) {
			return errCompact
		}
		*to, texts = texts[:n:n], texts[n:]
	}
	return nil
}

// knownForm returns the form with this number.
func knownForm(n uint32) abi.Forms {
	if f := abi.Forms(n); f&^abi.FormsKnown == 0 {
		return f
	}
	return sdk.FormUnknown
}

// parseForm returns the form with this name. Gateways before ABI version 1.3 send none, because they only have chat
// completions.
func parseForm(name []byte) abi.Forms {
	switch string(name) {
	case "chat", "":
		return abi.FormChat
	case "messages":
		return abi.FormMessages
	case "responses":
		return abi.FormResponses
	case "gemini":
		return abi.FormGemini
	case "completions":
		return abi.FormCompletions
	case "embeddings":
		return abi.FormEmbeddings
	case "moderations":
		return abi.FormModerations
	case "rerank":
		return abi.FormRerank
	}
	return sdk.FormUnknown
}

// ParseHex parses sixteen lower-case hexadecimal digits.
func ParseHex(digits []byte) uint64 {
	if len(digits) != 16 {
		return 0
	}
	return parseHex8(digits)<<32 | parseHex8(digits[8:])
}

// parseHex8 parses eight hexadecimal digits in parallel, one per byte of a word: bit 6 marks letters, whose lower four
// bits count from 1. It then combines neighbours in lanes of 8, 16 and 32 bits.
func parseHex8(b []byte) uint64 {
	const lanes = 0x0101010101010101
	b = b[:8]
	w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	w = w&(0x0f*lanes) + (w>>6&lanes)*9
	w = (w<<4 | w>>8) & 0x00ff00ff00ff00ff
	w = (w<<8 | w>>16) & 0x0000ffff0000ffff
	return (w<<16 | w>>32) & 0xffffffff
}
