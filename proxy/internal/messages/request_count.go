package messages

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// What a request costs beyond its text, in tokens. The numbers are rounded up: a count that is too low lets a client run into the
// end of the context that it counts for.
const (
	messageTokens  = 8     // what a message has around its content
	toolsTokens    = 700   // what a provider tells the model about calling tools, whichever there are
	formatTokens   = 200   // the same about the form of the response
	thinkingTokens = 50    // and about thinking, or its effort
	imageTokens    = 1_600 // the largest image that is not scaled down
	documentTokens = 3_000 // a page, as an image and as text
	documentBytes  = 20    // bytes of a longer document for one token
)

// EstimateTokens is about how many tokens a request has as a prompt. It is rounded up: three bytes of text for a token, and
// two beyond ASCII, where it is four, and about three, for most tokenizers.
func (r *Request) EstimateTokens() int64 {
	f := &r.facts
	foreign := 0
	for _, b := range r.body {
		if b >= 0x80 {
			foreign++
		}
	}
	foreign = min(foreign, f.TextBytes)
	n := (int64(f.TextBytes-foreign)+2)/3 + (int64(foreign)+1)/2 + messageTokens*int64(f.Messages+1)
	if f.Tools > 0 {
		n += toolsTokens
	}
	if f.Flags.Has(clientapi.FlagResponseFormat) {
		n += formatTokens
	}
	if f.Flags&(clientapi.FlagThinking|clientapi.FlagReasoning) != 0 {
		n += thinkingTokens
	}
	if f.Flags&(clientapi.FlagImages|clientapi.FlagFiles) != 0 {
		for m := r.m.messages.First(); m.Exists(); m = m.Next() {
			n += r.mediaTokens(m.Get("content"))
		}
	}
	return n
}

// mediaTokens is about how many tokens the images and files in a content have.
func (r *Request) mediaTokens(content jsondoc.Value) (n int64) {
	if content.Kind() != jsondoc.Array {
		return 0
	}
	for v := content.First(); v.Exists(); v = v.Next() {
		switch kindOf(r.keyword(v.Get("type"))) {
		case blockImage:
			n += imageTokens
		case blockDocument:
			if source := v.Get("source"); source.Get("type").Is("content") {
				n += r.mediaTokens(source.Get("content"))
			} else if !source.Get("type").Is("text") {
				n += max(documentTokens, int64(len(source.Get("data").Inside()))/documentBytes)
			}
		case blockToolResult:
			n += r.mediaTokens(v.Get("content"))
		}
	}
	return n
}

// AppendCount appends the response to a request for the number of its tokens.
func AppendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"input_tokens":`...), tokens, 10), '}')
}
