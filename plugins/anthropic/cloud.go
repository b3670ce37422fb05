package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// cloud is a host of Anthropic's models with its own addresses and versions, and otherwise their API.
type cloud uint8

// The clouds. Without one it is Anthropic's own API, or one like it.
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

// version is the version of the API, which stands in the body on a cloud.
func (c cloud) version() string {
	if c == bedrock {
		return bedrockVersion
	}
	return vertexVersion
}

// betas are those that a cloud takes.
func (c cloud) betas() []string {
	if c == bedrock {
		return bedrockBetas
	}
	return vertexBetas
}

// framing is that of a stream.
func (c cloud) framing() abi.Framing {
	if c == bedrock {
		return abi.FramingAWSInvoke
	}
	return abi.FramingSSE
}

// bedrockVersion is the version of the API on Bedrock
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html).
const bedrockVersion = "bedrock-2023-05-31"

// bedrockBetas are the betas that Bedrock documents for InvokeModel: it refuses a request with one that it does not know (the same
// page, and https://docs.claude.com/en/api/claude-on-amazon-bedrock).
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

// bedrockPath is where a model on Bedrock is asked. Its id may be an ARN.
func bedrockPath(model []byte, stream bool) string {
	p := append(translate.AppendEscaped([]byte("/model/"), model), "/invoke"...)
	if stream {
		p = append(p, "-with-response-stream"...)
	}
	return string(p)
}

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
