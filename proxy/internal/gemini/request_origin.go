package gemini

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Origin implements clientapi.Request.
func (r *Request) Origin(path string) string {
	name, _ := clientapi.CutMember(path)
	c := &r.config
	var v jsondoc.Value
	switch name {
	case "messages":
		return r.messageOrigin(path)
	case "tools":
		return r.toolOrigin(path)
	case "model":
		return "model"
	case "max_tokens", "max_completion_tokens":
		v = c.maxTokens
	case "temperature":
		v = c.temperature
	case "top_p":
		v = c.topP
	case "top_k":
		v = c.topK
	case "n":
		v = c.candidates
	case "seed":
		v = c.seed
	case "presence_penalty":
		v = c.presence
	case "frequency_penalty":
		v = c.frequency
	case "stop":
		v = c.stop
	case "logprobs":
		v = c.logprobs
	case "top_logprobs":
		v = c.topLogprobs
	case "modalities":
		v = c.modalities
	case "thinking":
		v = c.thinking
	case "reasoning_effort":
		v = c.level
	case "tool_choice":
		v = r.m.callingConfig
	case "response_format":
		switch {
		case c.jsonSchema.Exists():
			v = c.jsonSchema
		case c.schema.Exists():
			v = c.schema
		default:
			v = c.mimeType
		}
	}
	if !v.Exists() {
		return ""
	}
	return clientapi.Path(v)
}

// messageOrigin returns the client's path for a path in the written messages, such as "messages[2].content[0].text".
func (r *Request) messageOrigin(path string) string {
	kind, v, rest := r.chat.Origins.Find(path)
	switch kind {
	case clientapi.OriginNone:
		return "contents"
	case clientapi.OriginCall:
		for _, known := range [...][2]string{{".function.name", "name"}, {".function.arguments", "args"}, {".id", "id"}} {
			if member := r.field(v, known[1]); strings.HasPrefix(rest, known[0]) && member.Exists() {
				return clientapi.Path(member)
			}
		}
	}
	return clientapi.Path(v)
}

// toolOrigin returns the client's path for a path in the written tools, such as "tools[0].function.name".
func (r *Request) toolOrigin(path string) string {
	kind, v, rest := r.chat.Origins.Find(path)
	if kind == clientapi.OriginNone {
		return "tools"
	}
	switch member, _ := clientapi.CutMember(rest); member {
	case "name", "description":
		v = r.field(v, member)
	case "parameters":
		if schema := r.field(v, "parametersJsonSchema"); schema.Exists() {
			v = schema
		} else if parameters := r.field(v, "parameters"); parameters.Exists() {
			v = parameters
		}
	}
	return clientapi.Path(v)
}
