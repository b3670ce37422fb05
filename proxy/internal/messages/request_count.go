package messages

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// EstimateTokens implements clientapi.CountRequest.
func (r *Request) EstimateTokens() int64 {
	f := &r.facts
	n := f.EstimateTokens(r.body)
	if f.Flags&(clientapi.FlagImages|clientapi.FlagFiles) != 0 {
		for m := r.m.messages.First(); m.Exists(); m = m.Next() {
			n += r.mediaTokens(m.Get("content"))
		}
	}
	return n
}

// mediaTokens estimates the tokens of the images and files in a message's content.
func (r *Request) mediaTokens(content jsondoc.Value) (n int64) {
	if content.Kind() != jsondoc.Array {
		return 0
	}
	for v := content.First(); v.Exists(); v = v.Next() {
		switch parseKind(r.keyword(v.Get("type"))) {
		case blockImage:
			n += clientapi.ImageTokens
		case blockDocument:
			if source := v.Get("source"); source.Get("type").Is("content") {
				n += r.mediaTokens(source.Get("content"))
			} else if !source.Get("type").Is("text") {
				n += clientapi.FileTokens(source.Get("data").Inside())
			}
		case blockToolResult:
			n += r.mediaTokens(v.Get("content"))
		}
	}
	return n
}

// AppendCount appends the response to a count_tokens request.
func AppendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"input_tokens":`...), tokens, 10), '}')
}
