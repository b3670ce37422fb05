package anthropic

import "github.com/sluice-gateway/sluice/plugins/internal/translate"

// vertexVersion is the version of the API on Vertex AI, which stands in the body there
// (https://docs.claude.com/en/api/claude-on-vertex-ai).
const vertexVersion = "vertex-2023-10-16"

// vertexBetas are the betas that Vertex AI takes: it refuses a request with any other one
// (https://docs.claude.com/en/api/claude-on-vertex-ai, https://github.com/anthropics/claude-code/issues/12429).
var vertexBetas = []string{
	"compact-2026-01-12",
	"compact-2026-09-04",
	"computer-use-2025-01-24",
	"computer-use-2025-11-24",
	"context-1m-2025-08-07",
	"context-management-2025-06-27",
	"interleaved-thinking-2025-05-14",
	"per-turn-control-2026-07-01",
	"thinking-binding-controls-2026-08-01",
	"thinking-display-updates-2026-08-18",
	"tool-search-tool-2025-10-19",
	"web-search-2025-03-05",
}

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
