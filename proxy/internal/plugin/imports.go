package plugin

import (
	"fmt"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Indexes of the imports in abi.Imports. They are looked up by name, so this list cannot get out of step with that one.
var (
	importLog            = importIndex("log")
	importFail           = importIndex("fail")
	importHostMinor      = importIndex("host_minor")
	importInputGet       = importIndex("input_get")
	importInputCount     = importIndex("input_count")
	importInputText      = importIndex("input_text")
	importBodyGet        = importIndex("body_get")
	importBodyCount      = importIndex("body_count")
	importBodyIndex      = importIndex("body_index")
	importBodySet        = importIndex("body_set")
	importBodyDelete     = importIndex("body_delete")
	importBodyRename     = importIndex("body_rename")
	importBodyReplace    = importIndex("body_replace")
	importRequestPath    = importIndex("request_path")
	importRequestHeader  = importIndex("request_header")
	importRequestWrite   = importIndex("request_write")
	importRequestString  = importIndex("request_string")
	importRequestCopy    = importIndex("request_copy")
	importRequestPart    = importIndex("request_part")
	importToolAlias      = importIndex("tool_alias")
	importAnswer         = importIndex("answer")
	importWarn           = importIndex("warn")
	importResponseHeader = importIndex("response_header")
	importStateGet       = importIndex("state_get")
	importStateSet       = importIndex("state_set")
	importNextRequest    = importIndex("next_request")
	importCancelRequest  = importIndex("cancel_request")
	importStart          = importIndex("start")
	importText           = importIndex("text")
	importRefusal        = importIndex("refusal")
	importReasoning      = importIndex("reasoning")
	importToolCall       = importIndex("tool_call")
	importToolArguments  = importIndex("tool_arguments")
	importToolEnd        = importIndex("tool_end")
	importExtra          = importIndex("extra")
	importTextLength     = importIndex("text_length")
	importUsage          = importIndex("usage")
	importFinish         = importIndex("finish")
	importDone           = importIndex("done")
	importOpenAIEvent    = importIndex("openai_event")
	importEmbedding      = importIndex("embedding")
	importRank           = importIndex("rank")
	importUnknown        = importIndex("unknown")
	importModel          = importIndex("model")
	importMore           = importIndex("more")
	importCandidate      = importIndex("candidate")
	importExplain        = importIndex("explain")
	importTag            = importIndex("tag")
	importReplace        = importIndex("replace")
	importHold           = importIndex("hold")
)

func importIndex(name string) int {
	for i := range abi.Imports {
		if abi.Imports[i].Name == name {
			return i
		}
	}
	panic("plugin: the contract has no import " + name)
}

// decoders read each import's parameters off the guest's stack, in order, and call the import's method of call. An
// invalid address is recorded as the call's error, after which the method does nothing.
var decoders = map[string]func(a *args){
	"log":  func(a *args) { a.call.Log(abi.LogLevel(a.i32()), a.bytes()) },
	"fail": func(a *args) { a.call.Fail(abi.FailKind(a.i32()), a.bytes(), a.bytes(), a.bytes(), a.i32()) },

	"host_minor":  func(a *args) { a.length(a.call.HostMinor()) },
	"input_get":   func(a *args) { a.length(a.call.InputGet(a.bytes(), a.buffer())) },
	"input_count": func(a *args) { a.length(a.call.InputCount(a.bytes())) },
	"input_text":  func(a *args) { a.length(a.call.InputText(a.bytes(), a.buffer())) },

	"body_get":       func(a *args) { a.length(a.call.BodyGet(a.bytes(), a.buffer())) },
	"body_count":     func(a *args) { a.length(a.call.BodyCount(a.bytes())) },
	"body_index":     func(a *args) { a.length(a.call.BodyIndex(a.i32(), a.buffer())) },
	"body_set":       func(a *args) { a.status(a.call.BodySet(a.bytes(), a.bytes())) },
	"body_delete":    func(a *args) { a.status(a.call.BodyDelete(a.bytes())) },
	"body_rename":    func(a *args) { a.status(a.call.BodyRename(a.bytes(), a.bytes())) },
	"body_replace":   func(a *args) { a.status(a.call.BodyReplace(a.bytes(), a.bytes(), a.bytes())) },
	"request_path":   func(a *args) { a.status(a.call.RequestPath(a.bytes())) },
	"request_header": func(a *args) { a.status(a.call.RequestHeader(a.bytes(), a.bytes())) },
	"request_write":  func(a *args) { a.call.RequestWrite(a.bytes()) },
	"request_string": func(a *args) { a.status(a.call.RequestString(a.bytes())) },
	"request_copy":   func(a *args) { a.call.RequestCopy(a.i32(), a.i32()) },
	"request_part":   func(a *args) { a.call.RequestPart(a.i32()) },
	"tool_alias":     func(a *args) { a.status(a.call.ToolAlias(a.bytes(), a.bytes())) },
	"answer":         func(a *args) { a.status(a.call.Answer(abi.Framing(a.i32()), abi.Dialect(a.i32()), a.bytes())) },
	"warn":           func(a *args) { a.call.Warn(abi.WarnKind(a.i32()), a.bytes()) },

	"response_header": func(a *args) { a.length(a.call.ResponseHeader(a.bytes(), a.buffer())) },
	"state_get":       func(a *args) { a.length(a.call.StateGet(a.buffer())) },
	"state_set":       func(a *args) { a.status(a.call.StateSet(a.bytes())) },

	"next_request": func(a *args) {
		a.status(a.call.NextRequest(abi.Method(a.i32()), a.bytes(), a.bytes(), a.i32()))
	},
	"cancel_request": func(a *args) { a.status(a.call.CancelRequest(abi.Method(a.i32()), a.bytes(), a.bytes())) },

	"start":   func(a *args) { a.call.Start(a.bytes(), a.bytes(), a.bytes()) },
	"text":    func(a *args) { a.call.Text(a.i32(), abi.Encoding(a.i32()), a.bytes()) },
	"refusal": func(a *args) { a.call.Refusal(a.i32(), abi.Encoding(a.i32()), a.bytes()) },
	"reasoning": func(a *args) {
		a.call.Reasoning(a.i32(), abi.ReasoningPart(a.i32()), a.i32(), abi.Encoding(a.i32()), a.bytes())
	},
	"tool_call": func(a *args) { a.call.ToolCall(a.i32(), a.i32(), a.bytes(), a.bytes()) },
	"tool_arguments": func(a *args) {
		a.status(a.call.ToolArguments(a.i32(), a.i32(), abi.Encoding(a.i32()), a.bytes()))
	},
	"tool_end":     func(a *args) { a.call.ToolEnd(a.i32(), a.i32()) },
	"extra":        func(a *args) { a.status(a.call.Extra(abi.Scope(a.i32()), a.i32(), a.i32(), a.bytes(), a.bytes())) },
	"text_length":  func(a *args) { a.wide(a.call.TextLength(a.i32())) },
	"usage":        func(a *args) { a.call.Usage(abi.UsageKind(a.i32()), a.i64()) },
	"finish":       func(a *args) { a.call.Finish(a.i32(), abi.FinishReason(a.i32()), a.bytes()) },
	"done":         func(a *args) { a.call.Done(a.i32()) },
	"openai_event": func(a *args) { a.status(a.call.OpenAIEvent(a.bytes())) },
	"embedding":    func(a *args) { a.call.Embedding(a.i32(), a.bytes()) },
	"rank":         func(a *args) { a.call.Rank(a.i32(), a.bytes()) },
	"unknown":      func(a *args) { a.call.Unknown(a.bytes()) },

	"model":     func(a *args) { a.call.Model(a.bytes()) },
	"more":      func(a *args) { a.call.More(a.bytes()) },
	"candidate": func(a *args) { a.call.Candidate(a.i32()) },
	"explain":   func(a *args) { a.call.Explain(a.bytes()) },

	"tag":     func(a *args) { a.status(a.call.Tag(a.bytes())) },
	"replace": func(a *args) { a.status(a.call.Replace(a.i32(), a.i32(), a.bytes())) },
	"hold":    func(a *args) { a.status(a.call.Hold(a.i32())) },
}

// decodersByIndex are the decoders in the order of abi.Imports.
var decodersByIndex = func() (list [len(abi.Imports)]func(*args)) {
	for i := range abi.Imports {
		list[i] = decoders[abi.Imports[i].Name]
	}
	return list
}()

// args reads the parameters of one call of an import, and writes its result. It is a field of the instance, because a
// local one, passed to a function value, would be allocated for each call.
type args struct {
	call  *call
	guest *engine.Instance
	stack []uint64
	next  int

	texts [][]byte // without a guest: the strings that follow
	room  []byte   // the buffer for the result
}

func (a *args) cell() uint64 {
	v := a.stack[a.next]
	a.next++
	return v
}

func (a *args) i32() int32 { return int32(uint32(a.cell())) }
func (a *args) i64() int64 { return int64(a.cell()) }

// bytes reads an address and a length, and charges for the bytes. The result is the guest's memory, valid until the
// import returns. The address of an empty string is ignored, because some languages have none.
func (a *args) bytes() []byte {
	if a.guest == nil {
		a.next += 2
		p := a.texts[0]
		a.texts = a.texts[1:]
		return p
	}
	p := a.memory()
	a.guest.Charge(int64(len(p)) / fuelBytes)
	if a.call.recorder.recording() {
		a.call.recorder.addText(p)
	}
	return p
}

// buffer reads the address and capacity of a buffer for the import's result. The import charges for what it writes.
func (a *args) buffer() []byte {
	if a.guest == nil {
		a.next += 2
		return a.room
	}
	a.room = a.memory()
	return a.room
}

// memory reads an address and a length. If they are not within the guest's memory, it records an error and returns nil.
func (a *args) memory() []byte {
	addr, n := uint32(a.cell()), uint32(a.cell())
	if n == 0 {
		return nil
	}
	p, ok := a.guest.Read(addr, n)
	if !ok {
		a.call.abort(KindTrap, fmt.Sprintf("%d bytes at address %d, outside of the guest's memory", n, addr))
	}
	return p
}

func (a *args) length(n int32)      { a.stack[0] = uint64(uint32(n)) }
func (a *args) status(s abi.Status) { a.stack[0] = uint64(uint32(s)) }
func (a *args) wide(n int64)        { a.stack[0] = uint64(n) }

// hostImports returns the imports of package abi for the engine.
func hostImports() ([]engine.Import, error) {
	list := make([]engine.Import, 0, len(abi.Imports))
	for i := range abi.Imports {
		im := &abi.Imports[i]
		decode := decodersByIndex[i]
		if decode == nil {
			return nil, fmt.Errorf("plugin: import %s has no decoder", im.Name)
		}
		list = append(list, engine.Import{
			Name:    im.Name,
			Params:  valueTypes(im.Params),
			Results: valueTypes(im.Results),
			Func:    hostImport(i, decode),
		})
	}
	return list, nil
}

// hostImport returns the engine's function for one import. Once an error is recorded, the guest is stopped and does not
// run again.
func hostImport(index int, decode func(*args)) engine.HostFunc {
	return func(i *engine.Instance, stack []uint64) {
		in := i.User().(*instance)
		in.runImport(i, stack, index, decode)
		if in.call.err != nil {
			i.Stop() // the call costs the fuel used so far
		}
	}
}

// missingImport returns the function for an import that a newer version of the ABI has added. The plugin loads, but a
// call that uses the import fails.
func missingImport(name string) engine.HostFunc {
	reason := fmt.Sprintf("%.64q is not an import of ABI %d.%d: it needs a newer gateway", name, abi.Major, abi.Minor)
	return func(i *engine.Instance, _ []uint64) {
		c := &i.User().(*instance).call
		c.running = -1
		c.abort(KindProtocol, reason)
		i.Stop()
	}
}

// runImport runs one import. A panic of the gateway in it fails the guest's call.
func (in *instance) runImport(i *engine.Instance, stack []uint64, index int, decode func(*args)) {
	c := &in.call
	defer rescue.Recover(c.importPanicked)
	if c.meter == nil {
		c.meter = i // the import is called while the instance starts, before openWasm sets the meter
	}
	c.running = index
	i.Charge(importFuel)
	a := &in.args
	a.call, a.guest, a.stack, a.next, a.room = c, i, stack, 0, nil
	if c.recorder.recording() {
		c.recorder.startImport(index, stack)
	}
	var params []uint64
	if c.trace.tracer != nil {
		params = slices.Clone(stack) // the result will replace the first one
	}
	decode(a)
	if c.trace.tracer != nil && c.binding != nil {
		c.trace.addImport(i, index, params, a)
	}
	if c.recorder.recording() {
		c.recorder.endImport(stack[0], a.room)
	}
	a.stack = nil
}

func valueTypes(letters string) []engine.ValueType {
	var types []engine.ValueType
	for _, l := range letters {
		switch l {
		case 'i':
			types = append(types, engine.I32)
		case 'I':
			types = append(types, engine.I64)
		case 's':
			types = append(types, engine.I32, engine.I32)
		default:
			panic(fmt.Sprintf("plugin: the contract has a parameter of type %q", l))
		}
	}
	return types
}
