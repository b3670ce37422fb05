package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// asked is what a renderer keeps of the request that it responds to. A stream does without what is long once that has been
// repeated.
type asked struct {
	seals, logprobs bool
	reasoning       reasoningMode
	tools           []askedTool // those whose calls have another form than a function's
	names           []byte      // of tools
	echo            []byte      // members that a response repeats, each with a comma in front

	instructions, list []byte // JSON values: the instructions, and the list of tools
	input              []byte // the items of the input, for the memory; nil if the response is not kept
}

// askedTool is Tool, with names as a Writer gives them.
type askedTool struct {
	called, namespace, name []byte
	custom                  bool
}

// reasoningMode is how reasoning is shown that people can read.
type reasoningMode uint8

const (
	reasoningHidden  reasoningMode = iota
	reasoningSummary               // as the summary of its item
	reasoningContent               // as its content
)

func (a *asked) reset() {
	const keepTools = 256
	*a = asked{
		tools: trim(a.tools, keepTools), names: response.Reuse(a.names), echo: response.Reuse(a.echo),
		instructions: response.Reuse(a.instructions), list: response.Reuse(a.list),
	}
}

// Respond implements clientapi.Renderer.
func (r *Renderer) Respond(to clientapi.Request) {
	q, ok := to.(*Request)
	if !ok {
		return
	}
	a := &r.asked
	a.seals, a.logprobs = q.WantsSeals(), q.WantsLogprobs()
	switch {
	case q.WantsSummary():
		a.reasoning = reasoningSummary
	case r.showReasoning:
		a.reasoning = reasoningContent
	}
	for _, t := range q.Tools() {
		a.tools = append(a.tools, askedTool{
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

// addName keeps the inside of a JSON string in the form in which a Writer spells it.
func (a *asked) addName(inside []byte) []byte {
	from := len(a.names)
	a.names = jsondoc.AppendEscaped(a.names, jsondoc.AppendUnescaped(nil, inside))
	return a.names[from:len(a.names):len(a.names)]
}

// tool returns the tool that a call is of, nil for an ordinary function.
func (a *asked) tool(called []byte) *askedTool {
	for i := range a.tools {
		if t := &a.tools[i]; bytes.Equal(t.called, called) {
			return t
		}
	}
	return nil
}

// shows reports whether the client sees the text of an item of reasoning.
func (a *asked) shows(it *outputItem) bool { return a.reasoning != reasoningHidden && len(it.text) > 0 }

// release drops what a stream has repeated and does not repeat again, unless it is kept with the response.
func (a *asked) release(out *response.Output) {
	if a.input == nil {
		out.Held -= len(a.instructions) + len(a.list)
		a.instructions, a.list = nil, nil
	}
}
