package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// requestInfo is what a renderer keeps of the request that it responds to. In a stream, the long parts are dropped once
// they have been repeated: see release.
type requestInfo struct {
	seals, logprobs bool
	reasoning       reasoningMode
	tools           []renamedTool // the tools that are not plain functions to the client
	names           []byte        // memory for the names of tools
	echo            []byte        // other members that a response repeats, each preceded by a comma

	instructions, list []byte // JSON values that a response repeats: the instructions, and the list of tools
	input              []byte // the items of the input, for the memory; nil if the response is not stored
}

// renamedTool is a Tool whose names are escaped as a Writer escapes them.
type renamedTool struct {
	called, namespace, name []byte
	custom                  bool
}

// reasoningMode is where readable reasoning is shown.
type reasoningMode uint8

const (
	reasoningHidden  reasoningMode = iota
	reasoningSummary               // as the summary of its item
	reasoningContent               // as its content
)

func (a *requestInfo) reset() {
	const keepTools = 256
	*a = requestInfo{
		tools: trim(a.tools, keepTools), names: response.Reuse(a.names), echo: response.Reuse(a.echo),
		instructions: response.Reuse(a.instructions), list: response.Reuse(a.list),
	}
}

// Respond implements clientapi.Renderer.
func (r *renderer) Respond(to clientapi.Request) {
	q, ok := to.(*Request)
	if !ok {
		return
	}
	a := &r.request
	r.pass.atOnce = q.m.background.Kind() == jsondoc.True
	a.seals, a.logprobs = q.WantsSeals(), q.WantsLogprobs()
	switch {
	case q.WantsSummary():
		a.reasoning = reasoningSummary
	case r.showReasoning:
		a.reasoning = reasoningContent
	}
	for _, t := range q.Tools() {
		a.tools = append(a.tools, renamedTool{
			called: a.addName(t.Called), namespace: a.addName(t.Namespace), name: a.addName(t.Name), custom: t.Custom,
		})
	}
	stored := r.memory != nil && q.Stores()
	a.echo = q.AppendEcho(append(a.echo, ','), stored)
	a.instructions = q.AppendInstructions(a.instructions)
	a.list = q.AppendTools(a.list)
	if stored {
		r.client = q.Client()
		a.input = q.AppendInput([]byte{})
	}
	r.out.Held += len(a.echo) + len(a.instructions) + len(a.list) + len(a.input)
}

// addName copies the inside of a JSON string, escaped as a Writer escapes it.
func (a *requestInfo) addName(inside []byte) []byte {
	from := len(a.names)
	a.names = jsondoc.AppendEscaped(a.names, jsondoc.AppendUnescaped(nil, inside))
	return a.names[from:len(a.names):len(a.names)]
}

// tool returns the renamed tool that a call calls, nil for an ordinary function.
func (a *requestInfo) tool(called []byte) *renamedTool {
	for i := range a.tools {
		if t := &a.tools[i]; bytes.Equal(t.called, called) {
			return t
		}
	}
	return nil
}

// shows reports whether the client receives the text of a reasoning item.
func (a *requestInfo) shows(it *outputItem) bool {
	return a.reasoning != reasoningHidden && len(it.text) > 0
}

// release drops what a stream repeats only once, unless it is stored with the response.
func (a *requestInfo) release(out *response.Output) {
	if a.input == nil {
		out.Held -= len(a.instructions) + len(a.list)
		a.instructions, a.list = nil, nil
	}
}
