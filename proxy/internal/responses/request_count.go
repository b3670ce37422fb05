package responses

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// What a request costs beyond its text, in tokens. The numbers are rounded up: a count that is too low lets a client run into the
// end of the context that it counts for.
const (
	itemTokens      = 8     // what an item has around its content
	toolsTokens     = 700   // what a provider tells the model about calling tools, whichever there are
	formatTokens    = 200   // the same about the form of the response
	reasoningTokens = 50    // and about reasoning
	imageTokens     = 1_600 // the largest image that is not scaled down
	fileTokens      = 3_000 // a page, as an image and as text
	fileBytes       = 20    // bytes of a longer file for one token
)

// EstimateTokens implements clientapi.CountRequest: three bytes of text for a token, and two beyond ASCII, where it is four, and
// about three, for most tokenizers.
func (r *Request) EstimateTokens() int64 {
	if r.expanded {
		return r.full.EstimateTokens()
	}
	f := &r.facts
	foreign := 0
	for _, b := range r.body {
		if b >= 0x80 {
			foreign++
		}
	}
	foreign = min(foreign, f.TextBytes)
	n := (int64(f.TextBytes-foreign)+2)/3 + (int64(foreign)+1)/2 + itemTokens*int64(f.Messages+1)
	if f.Tools > 0 {
		n += toolsTokens
	}
	if f.Flags.Has(clientapi.FlagResponseFormat) {
		n += formatTokens
	}
	if f.Flags.Has(clientapi.FlagReasoning) {
		n += reasoningTokens
	}
	if f.Flags&(clientapi.FlagImages|clientapi.FlagFiles|clientapi.FlagAudio) != 0 {
		for i := range r.items {
			n += mediaTokens(r.items[i].v.Get("content")) + mediaTokens(r.items[i].v.Get("output"))
		}
	}
	return n
}

// mediaTokens is about how many tokens the images, files and sounds in a content have.
func mediaTokens(content jsondoc.Value) (n int64) {
	if content.Kind() != jsondoc.Array {
		return 0
	}
	for p := content.First(); p.Exists(); p = p.Next() {
		switch typ := p.Get("type"); {
		case typ.Is("input_image"):
			n += imageTokens
		case typ.Is("input_file"):
			n += max(fileTokens, int64(len(p.Get("file_data").Inside()))/fileBytes)
		case typ.Is("input_audio"):
			n += max(fileTokens, int64(len(p.Get("input_audio").Get("data").Inside()))/fileBytes)
		}
	}
	return n
}

// AppendCount appends the response to a request for the number of its tokens.
func AppendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"object":"response.input_tokens","input_tokens":`...), tokens, 10), '}')
}
