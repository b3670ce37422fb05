package openai

import (
	"errors"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// thinkingMode selects the treatment of the member thinking.
type thinkingMode uint8

const (
	thinkingEffort    thinkingMode = iota // reasoning_effort
	thinkingType                          // thinking: {type}, without a budget
	thinkingReasoning                     // reasoning: {max_tokens}, {effort} or {enabled}
	thinkingEnabled                       // reasoning: {enabled}
	thinkingTemplate                      // chat_template_kwargs: {enable_thinking}
	thinkingKeep
	thinkingDrop
)

var thinkingModes = [...]string{"effort", "type", "reasoning", "enabled", "template", "keep", "drop"}

// The forms in which an upstream accepts reasoning of earlier turns.
const (
	keepContent = 1 << iota // the member reasoning_content, a text
	keepDetails             // reasoning_details
	keepBlocks              // thinking_blocks
	asReasoning             // the member reasoning, a text
	asPart                  // a part of the content, of the type thinking
)

var historyForms = [...]string{"reasoning_content", "reasoning_details", "thinking_blocks", "reasoning", "thinking_part"}

// options are the operator's options, described in the package comment. Their slices share the memory of doc.
type options struct {
	doc []byte // a copy of the document that they were parsed from; nil if parsing failed

	maxTokensMember []byte
	developerRole   []byte
	path            []byte
	modelsPath      []byte
	responsesPath   []byte
	callPaths       [len(calls)][]byte
	apiVersion      []byte
	thinkingMember  []byte
	effortOff       []byte
	efforts         json.Value
	rename          json.Value
	refuse          json.Value
	drop            json.Value
	set             json.Value
	accept          json.Value
	answer          json.Value
	thinking        thinkingMode
	history         uint8 // set of keepContent and the other forms in which the upstream accepts reasoning of earlier turns
	noList          bool
	responses       bool // api is "responses": requests are sent as Responses requests
	stateless       bool // the upstream does not store responses
	summary         []byte
	encrypted       translate.Choice // request encrypted reasoning; unset: if the model reasons
	forms           abi.Forms
	noStreamUsage   bool
	cacheControl    bool
	nineLetters     bool // IDs of tool calls are nine letters and digits
	objectFormat    bool // the only response_format is json_object
	objectArguments bool // arguments of tool calls must be JSON objects
}

var (
	errMaxTokensMember = errors.New("options: invalid max_tokens_member: want max_tokens or max_completion_tokens")
	errThinking        = errors.New("options: invalid thinking: want effort, type, reasoning, enabled, template, keep or drop")
	errHistory         = errors.New("options: invalid reasoning_history: want reasoning_content, reasoning_details, thinking_blocks, reasoning or thinking_part")
	errToolIDs         = errors.New("options: invalid tool_ids: want any or nine_letters")
	errFormat          = errors.New("options: invalid response_format: want json_schema or json_object")
	errAccept          = errors.New("options: invalid accept: want a table of arrays named members, tool_choice, reasoning_effort, max_tokens, content or response_format")
	errArguments       = errors.New("options: invalid arguments: want text or object")
	errAPI             = errors.New("options: invalid api: want chat or responses")
	errForms           = errors.New("options: invalid forms: want responses, completions, embeddings, moderations or rerank")
	errSummary         = errors.New("options: invalid reasoning_summary: want auto, concise or detailed")
	errKind            = errors.New("options: a member has the wrong type")
)

// read parses a document of options into o, unless it is the same as for the preceding request, which is the usual
// case.
func (o *options) read(doc json.Value) error {
	if o.doc != nil && string(o.doc) == string(doc) {
		return nil
	}
	kept := append(o.doc[:0], doc...)
	*o = options{forms: commonForms}
	if err := o.parse(kept); err != nil {
		return err
	}
	o.doc = kept
	return nil
}

// parse parses options. It ignores unknown members, which belong to another plugin or a newer version.
func (o *options) parse(doc json.Value) error {
	if !doc.Exists() {
		return nil
	}
	var (
		r   json.Reader
		err error
		on  bool
		at  int
	)
	formsSet := false
	r.Reset(doc)
	for m := r.Object(); m.Next() && err == nil; {
		switch string(r.Name()) {
		case "max_tokens_member":
			o.maxTokensMember, err = readText(&r)
			if s := string(o.maxTokensMember); err == nil && s != "max_tokens" && s != "max_completion_tokens" {
				err = errMaxTokensMember
			}
		case "developer_role":
			o.developerRole, err = readText(&r)
		case "stream_usage":
			on, err = readBool(&r)
			o.noStreamUsage = !on
		case "thinking":
			at, err = readChoice(&r, thinkingModes[:], errThinking)
			o.thinking = thinkingMode(at)
		case "thinking_member":
			o.thinkingMember, err = readText(&r)
		case "efforts":
			o.efforts, err = readTexts(&r)
		case "effort_off":
			o.effortOff, err = readText(&r)
		case "reasoning_history":
			o.history, err = parseHistory(&r)
		case "cache_control":
			o.cacheControl, err = readBool(&r)
		case "tool_ids":
			at, err = readChoice(&r, []string{"any", "nine_letters"}, errToolIDs)
			o.nineLetters = at == 1
		case "response_format":
			at, err = readChoice(&r, []string{"json_schema", "json_object"}, errFormat)
			o.objectFormat = at == 1
		case "arguments":
			at, err = readChoice(&r, []string{"text", "object"}, errArguments)
			o.objectArguments = at == 1
		case "accept":
			o.accept, err = readAccept(&r)
		case "rename":
			o.rename, err = readTexts(&r)
		case "refuse":
			o.refuse, err = readValue(&r, json.Array)
		case "drop":
			o.drop, err = readValue(&r, json.Array)
		case "set":
			o.set, err = readValue(&r, json.Object)
		case "answer":
			o.answer, err = readValue(&r, json.Object)
		case "path":
			o.path, err = readText(&r)
		case "models_path":
			o.modelsPath, err = readText(&r)
		case "api_version":
			o.apiVersion, err = readText(&r)
		case "api":
			at, err = readChoice(&r, []string{"chat", "responses"}, errAPI)
			o.responses = at == 1
		case "forms":
			o.forms, err = readForms(&r)
			formsSet = true
		case "stateless":
			o.stateless, err = readBool(&r)
		case "reasoning_summary":
			o.summary, err = readText(&r)
			if s := string(o.summary); err == nil && s != "auto" && s != "concise" && s != "detailed" {
				err = errSummary
			}
		case "encrypted_reasoning":
			on, err = readBool(&r)
			o.encrypted, _ = translate.Choose(on, true)
		case "responses_path":
			o.responsesPath, err = readText(&r)
		case "completions_path":
			o.callPaths[0], err = readText(&r)
		case "embeddings_path":
			o.callPaths[1], err = readText(&r)
		case "moderations_path":
			o.callPaths[2], err = readText(&r)
		case "rerank_path":
			o.callPaths[3], err = readText(&r)
		case "list":
			on, err = readBool(&r)
			o.noList = !on
		}
	}
	if o.responses && !formsSet {
		o.forms |= abi.FormResponses
	}
	if err != nil {
		return err
	}
	return r.End()
}

// accepts reports whether the upstream accepts a value that the OpenAI API lacks; value is JSON without escapes.
func (o *options) accepts(member, value string) bool {
	if !o.accept.Exists() {
		return false
	}
	var in json.Reader
	in.Reset(o.accept.Get(member))
	for a := in.Array(); a.Next(); {
		if string(in.Raw()) == value {
			return true
		}
	}
	return false
}

// effort returns the upstream's name for an effort, empty if it has none.
func (o *options) effort(effort []byte) []byte {
	if len(effort) == 0 || !o.efforts.Exists() {
		return effort
	}
	if name := o.efforts.Get(string(effort)); name.Exists() {
		return name.Text()
	}
	return effort
}

// expandPath returns an upstream path: the operator's, otherwise the standard one, with {model} replaced by the model.
func (o *options) expandPath(own []byte, standard string, model []byte) string {
	const place = "{model}"
	if len(own) == 0 {
		if len(o.apiVersion) == 0 {
			return standard
		}
		own = []byte(standard)
	}
	var path []byte
	for len(own) > 0 {
		if len(own) >= len(place) && string(own[:len(place)]) == place {
			path, own = translate.AppendEscaped(path, model), own[len(place):]
			continue
		}
		path, own = append(path, own[0]), own[1:]
	}
	if len(o.apiVersion) > 0 {
		path = translate.AppendEscaped(append(path, "?api-version="...), o.apiVersion)
	}
	return string(path)
}

func readText(r *json.Reader) ([]byte, error) {
	if s := r.Text(); s != nil {
		return s, nil
	}
	return nil, errKind
}

func readBool(r *json.Reader) (bool, error) {
	b, ok := r.Bool()
	if !ok {
		return false, errKind
	}
	return b, nil
}

// readChoice returns the index of the current string in names.
func readChoice(r *json.Reader, names []string, unknown error) (int, error) {
	s := r.Inside()
	for i, name := range names {
		if s != nil && string(s) == name {
			return i, nil
		}
	}
	return 0, unknown
}

func readValue(r *json.Reader, kind json.Kind) (json.Value, error) {
	if r.Kind() != kind {
		return nil, errKind
	}
	return r.Raw(), nil
}

// readTexts reads a table whose values are strings.
func readTexts(r *json.Reader) (json.Value, error) {
	table, err := readValue(r, json.Object)
	if err != nil {
		return nil, err
	}
	var in json.Reader
	in.Reset(table)
	for o := in.Object(); o.Next(); {
		if in.Kind() != json.String {
			return nil, errKind
		}
	}
	return table, nil
}

// readAccept reads a table of arrays, whose names are the members that accepts is called with.
func readAccept(r *json.Reader) (json.Value, error) {
	table, err := readValue(r, json.Object)
	if err != nil {
		return nil, errAccept
	}
	var in json.Reader
	in.Reset(table)
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "members", "tool_choice", "reasoning_effort", "max_tokens", "content", "response_format", "tool_names":
		default:
			return nil, errAccept
		}
		if in.Kind() != json.Array {
			return nil, errAccept
		}
	}
	return table, nil
}

// formNames are the forms besides chat completions in which an upstream may accept requests.
var formNames = [...]string{"responses", "completions", "embeddings", "moderations", "rerank"}

// formBits are the forms in the order of formNames.
var formBits = [...]abi.Forms{abi.FormResponses, abi.FormCompletions, abi.FormEmbeddings, abi.FormModerations, abi.FormRerank}

// commonForms are the forms of an upstream whose options do not list any. Only models of these kinds get such requests.
const commonForms = abi.FormCompletions | abi.FormEmbeddings | abi.FormRerank

func readForms(r *json.Reader) (forms abi.Forms, err error) {
	if r.Kind() != json.Array {
		return 0, errForms
	}
	for a := r.Array(); a.Next() && err == nil; {
		var at int
		at, err = readChoice(r, formNames[:], errForms)
		forms |= formBits[at]
	}
	return forms, err
}

func parseHistory(r *json.Reader) (forms uint8, err error) {
	if r.Kind() != json.Array {
		return 0, errHistory
	}
	for a := r.Array(); a.Next() && err == nil; {
		var at int
		at, err = readChoice(r, historyForms[:], errHistory)
		forms |= 1 << at
	}
	return forms, err
}
