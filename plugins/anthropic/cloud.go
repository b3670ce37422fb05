package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// cloud is a cloud platform that hosts Anthropic's models with its own paths and versions, but otherwise with their
// API.
type cloud uint8

// The clouds. noCloud is Anthropic's own API, or a compatible one.
const (
	noCloud cloud = iota
	vertex        // Google's Vertex AI
	bedrock       // InvokeModel of AWS Bedrock
)

// findCloud reads the option "api".
func findCloud(name []byte) (c cloud, ok bool) {
	switch string(name) {
	case "anthropic":
		return noCloud, true
	case "vertex":
		return vertex, true
	case "bedrock":
		return bedrock, true
	}
	return noCloud, false
}

// version returns the version of the API, which is a member of the body on a cloud.
func (c cloud) version() string {
	if c == bedrock {
		return bedrockVersion
	}
	return vertexVersion
}

// betas returns the betas that a cloud accepts.
func (c cloud) betas() []string {
	if c == bedrock {
		return bedrockBetas
	}
	return vertexBetas
}

// framing returns the framing of a stream.
func (c cloud) framing() abi.Framing {
	if c == bedrock {
		return abi.FramingAWSInvoke
	}
	return abi.FramingSSE
}

// bedrockVersion is the version of the API on Bedrock
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html).
const bedrockVersion = "bedrock-2023-05-31"

// bedrockBetas are the betas that Bedrock documents for InvokeModel. It rejects a request with any other (same page,
// and https://docs.claude.com/en/api/claude-on-amazon-bedrock).
var bedrockBetas = []string{
	"computer-use-*",
	"context-1m-2025-08-07",
	"context-management-2025-06-27",
	"dev-full-thinking-2025-05-14",
	"effort-2025-11-24",
	"interleaved-thinking-2025-05-14",
	"output-128k-2025-02-19",
	"token-efficient-tools-2025-02-19",
	"tool-examples-2025-10-29",
	"tool-search-tool-2025-10-19",
}

// bedrockPath returns the path for requests to a model on Bedrock. The model's ID may be an ARN.
func bedrockPath(model []byte, stream bool) string {
	p := append(translate.AppendEscaped([]byte("/model/"), model), "/invoke"...)
	if stream {
		p = append(p, "-with-response-stream"...)
	}
	return string(p)
}

// vertexVersion is the version of the API on Vertex AI, which is a member of the body there
// (https://docs.claude.com/en/api/claude-on-vertex-ai).
const vertexVersion = "vertex-2023-10-16"

// vertexBetas are the betas that Vertex AI accepts. It rejects a request with any other
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

// vertexPath returns the path for requests to a model on Vertex AI.
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
