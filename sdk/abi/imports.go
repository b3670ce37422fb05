package abi

// Phase is a set of exports during whose calls an import may be used. Use during any other call ends that call with a
// protocol error.
type Phase uint16

// The phases.
const (
	PhaseRequest   Phase = 1 << iota // provider_request
	PhaseAnswer                      // provider_response, provider_event, provider_end
	PhaseList                        // provider_list
	PhaseModels                      // provider_models
	PhaseRouter                      // router_choose
	PhaseConfigure                   // _initialize, sluice_plugin, sluice_configure, sluice_forms, provider_reads, router_reads, filter_reads, sluice_collect: only log, host_minor and input_*
	PhaseFilter                      // filter_request
	PhaseText                        // filter_text
)

// phasesInput are the phases whose input may be a JSON document.
const phasesInput = PhaseRequest | PhaseAnswer | PhaseList | PhaseModels | PhaseRouter | PhaseConfigure | PhaseFilter

// Import is the signature of an imported function. Params and Results contain one letter per value: i for i32, I for
// i64, and s for a string, which is two i32, address and length. Phases contains the exports during whose calls the
// import may be used.
type Import struct {
	Name    string
	Params  string
	Results string
	Phases  Phase
}

// Imports lists every function that a guest may import from Module. Callers must not modify it.
var Imports = [...]Import{
	{"log", "is", "", PhaseRequest | PhaseAnswer | PhaseList | PhaseModels | PhaseRouter | PhaseConfigure | PhaseFilter | PhaseText},
	{"fail", "isssi", "", PhaseRequest | PhaseAnswer | PhaseModels | PhaseRouter | PhaseFilter | PhaseText},

	{"host_minor", "", "i", PhaseRequest | PhaseAnswer | PhaseList | PhaseModels | PhaseRouter | PhaseConfigure | PhaseFilter | PhaseText},
	{"input_get", "sii", "i", phasesInput},
	{"input_count", "s", "i", phasesInput},
	{"input_text", "sii", "i", phasesInput},

	{"body_get", "sii", "i", PhaseRequest},
	{"body_count", "s", "i", PhaseRequest},
	{"body_index", "iii", "i", PhaseRequest},
	{"body_set", "ss", "i", PhaseRequest},
	{"body_delete", "s", "i", PhaseRequest},
	{"body_rename", "ss", "i", PhaseRequest},
	{"body_replace", "sss", "i", PhaseRequest},
	{"request_path", "s", "i", PhaseRequest | PhaseList},
	{"request_header", "ss", "i", PhaseRequest | PhaseList},
	{"request_write", "s", "", PhaseRequest},
	{"request_string", "s", "i", PhaseRequest},
	{"request_copy", "ii", "", PhaseRequest},
	{"request_part", "i", "", PhaseRequest},
	{"tool_alias", "ss", "i", PhaseRequest},
	{"answer", "iis", "i", PhaseRequest},
	{"warn", "is", "", PhaseRequest},

	{"response_header", "sii", "i", PhaseAnswer | PhaseModels},
	{"state_get", "ii", "i", PhaseRequest | PhaseAnswer},
	{"state_set", "s", "i", PhaseRequest | PhaseAnswer},

	{"next_request", "issi", "i", PhaseAnswer},
	{"cancel_request", "iss", "i", PhaseAnswer},

	{"start", "sss", "", PhaseRequest | PhaseAnswer},
	{"text", "iis", "", PhaseRequest | PhaseAnswer},
	{"refusal", "iis", "", PhaseRequest | PhaseAnswer},
	{"reasoning", "iiiis", "", PhaseRequest | PhaseAnswer},
	{"tool_call", "iiss", "", PhaseRequest | PhaseAnswer},
	{"tool_arguments", "iiis", "i", PhaseRequest | PhaseAnswer},
	{"tool_end", "ii", "", PhaseRequest | PhaseAnswer},
	{"extra", "iiiss", "i", PhaseRequest | PhaseAnswer},
	{"text_length", "i", "I", PhaseRequest | PhaseAnswer},
	{"usage", "iI", "", PhaseRequest | PhaseAnswer},
	{"finish", "iis", "", PhaseRequest | PhaseAnswer},
	{"done", "i", "", PhaseRequest | PhaseAnswer},
	{"openai_event", "s", "i", PhaseRequest | PhaseAnswer},
	{"embedding", "is", "", PhaseRequest | PhaseAnswer},
	{"rank", "is", "", PhaseRequest | PhaseAnswer},
	{"unknown", "s", "", PhaseAnswer | PhaseModels},

	{"model", "s", "", PhaseModels},
	{"more", "s", "", PhaseModels},
	{"candidate", "i", "", PhaseRouter},
	{"explain", "s", "", PhaseRouter},

	{"tag", "s", "i", PhaseFilter | PhaseText},
	{"replace", "iis", "i", PhaseText},
	{"hold", "i", "i", PhaseText},
}

// Host is the import module as a Go interface: the gateway implements it, and guests that run natively call it. Byte
// slices belong to the caller and are valid only during the call. README.md specifies each function.
type Host interface {
	Log(level LogLevel, message []byte)
	Fail(kind FailKind, code, param, message []byte, retryAfterMs int32)

	HostMinor() int32
	InputGet(path, dst []byte) int32
	InputCount(path []byte) int32
	InputText(path, dst []byte) int32

	BodyGet(path, dst []byte) int32
	BodyCount(path []byte) int32
	BodyIndex(size int32, dst []byte) int32
	BodySet(path, json []byte) Status
	BodyDelete(path []byte) Status
	BodyRename(path, name []byte) Status
	BodyReplace(path, old, new []byte) Status
	RequestPath(path []byte) Status
	RequestHeader(name, value []byte) Status
	RequestWrite(p []byte)
	RequestString(text []byte) Status
	RequestCopy(offset, length int32)
	RequestPart(part int32)
	ToolAlias(alias, name []byte) Status
	Answer(framing Framing, dialect Dialect, options []byte) Status
	Warn(kind WarnKind, member []byte)

	ResponseHeader(name, dst []byte) int32
	StateGet(dst []byte) int32
	StateSet(state []byte) Status

	NextRequest(method Method, path, body []byte, pauseMs int32) Status
	CancelRequest(method Method, path, body []byte) Status

	Start(id, model, reasoningFormat []byte)
	Text(choice int32, encoding Encoding, s []byte)
	Refusal(choice int32, encoding Encoding, s []byte)
	Reasoning(choice int32, part ReasoningPart, key int32, encoding Encoding, s []byte)
	ToolCall(choice, key int32, id, name []byte)
	ToolArguments(choice, key int32, encoding Encoding, s []byte) Status
	ToolEnd(choice, key int32)
	Extra(scope Scope, choice, key int32, member, json []byte) Status
	TextLength(choice int32) int64
	Usage(kind UsageKind, value int64)
	Finish(choice int32, reason FinishReason, native []byte)
	Done(more int32)
	OpenAIEvent(p []byte) Status
	Embedding(index int32, numbers []byte)
	Rank(index int32, score []byte)
	Unknown(what []byte)

	Model(json []byte)
	More(cursor []byte)
	Candidate(index int32)
	Explain(text []byte)

	Tag(name []byte) Status
	Replace(from, to int32, text []byte) Status
	Hold(n int32) Status
}
