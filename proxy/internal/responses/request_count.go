package responses

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// EstimateTokens implements clientapi.CountRequest.
func (r *Request) EstimateTokens() int64 {
	if r.expanded {
		return r.full.EstimateTokens()
	}
	f := &r.facts
	n := f.EstimateTokens(r.body)
	if f.Flags&(clientapi.FlagImages|clientapi.FlagFiles|clientapi.FlagAudio) != 0 {
		for i := range r.items {
			n += mediaTokens(r.items[i].v.Get("content")) + mediaTokens(r.items[i].v.Get("output"))
		}
	}
	return n
}

// mediaTokens estimates the tokens of the images, files and audio in a message's content or a tool's output.
func mediaTokens(content jsondoc.Value) (n int64) {
	if content.Kind() != jsondoc.Array {
		return 0
	}
	for p := content.First(); p.Exists(); p = p.Next() {
		switch typ := p.Get("type"); {
		case typ.Is("input_image"):
			n += clientapi.ImageTokens
		case typ.Is("input_file"):
			n += clientapi.FileTokens(p.Get("file_data").Inside())
		case typ.Is("input_audio"):
			n += clientapi.FileTokens(p.Get("input_audio").Get("data").Inside())
		}
	}
	return n
}

// AppendCount appends the response to a request for the number of input tokens.
func AppendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"object":"response.input_tokens","input_tokens":`...), tokens, 10), '}')
}
