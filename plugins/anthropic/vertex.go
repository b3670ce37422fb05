package anthropic

import "github.com/sluice-gateway/sluice/plugins/internal/translate"

// vertexVersion is the version of the API on Vertex AI, which stands in the body there
// (https://docs.claude.com/en/api/claude-on-vertex-ai).
const vertexVersion = "vertex-2023-10-16"

// vertexPath is where a model on Vertex AI is asked.
func vertexPath(o *options, model []byte, stream bool) string {
	p := append([]byte("/v1/projects/"), o.project...)
	p = append(append(p, "/locations/"...), o.location...)
	p = append(p, "/publishers/anthropic/models/"...)
	for _, c := range model {
		if translate.NameByte(c) || c == '.' || c == '@' {
			p = append(p, c)
		} else {
			p = append(p, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	if stream {
		return string(p) + ":streamRawPredict"
	}
	return string(p) + ":rawPredict"
}
