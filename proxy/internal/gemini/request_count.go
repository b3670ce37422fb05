package gemini

import (
	"bytes"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// EstimateTokens implements clientapi.CountRequest.
func (r *Request) EstimateTokens() int64 {
	f := &r.facts
	n := f.EstimateTokens(r.body)
	if f.Flags&(clientapi.FlagImages|clientapi.FlagFiles|clientapi.FlagAudio) != 0 {
		for v := elements(r.m.contents); v.Exists(); v = v.next() {
			n += r.mediaTokens(r.field(v.Value, "parts"))
		}
	}
	return n
}

// mediaTokens estimates the tokens of the images, audio and files in a list of parts.
func (r *Request) mediaTokens(parts jsondoc.Value) (n int64) {
	var p part
	for v := elements(parts); v.Exists(); v = v.next() {
		if r.scanPart(v.Value, &p) != nil {
			continue // cannot happen: Parse has checked it
		}
		switch {
		case !p.inline.Exists() && !p.file.Exists():
			if p.responseParts.Exists() {
				n += r.mediaTokens(p.responseParts)
			}
		case bytes.HasPrefix(p.mimeType.Inside(), []byte("image/")):
			n += clientapi.ImageTokens
		default:
			n += clientapi.FileTokens(p.data.Inside())
		}
	}
	return n
}

// AppendCount appends the response to a countTokens request.
func AppendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"totalTokens":`...), tokens, 10), '}')
}
