package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// role is the author of a message.
type role uint8

const (
	roleUnknown role = iota
	roleSystem       // a system message in the middle of the conversation
	roleUser
	roleAssistant
)

func (r *Request) messageRole(message jsondoc.Value) role {
	switch string(r.keyword(message.Get("role"))) {
	case "user":
		return roleUser
	case "assistant":
		return roleAssistant
	case "system":
		return roleSystem
	}
	return roleUnknown
}

// readMessages checks the conversation. Only AppendChat checks that tool uses and results match.
func (r *Request) readMessages(root jsondoc.Value) *apierror.Error {
	list, f := r.m.messages, &r.facts
	if e := r.needKind(list, root, "messages", jsondoc.Array, "list"); e != nil {
		return e
	}
	if !list.First().Exists() && !r.m.thread.Get("previous_message_id").Exists() { // a thread also continues without a new message
		return r.invalid(list, clientapi.CodeEmptyArray, "at least one message is required")
	}
	for m := list.First(); m.Exists(); m = m.Next() {
		if f.Messages++; f.Messages > r.limits.Messages {
			return r.tooMany(list, r.limits.Messages)
		}
		if m.Kind() != jsondoc.Object {
			return r.wrongType(m, "dictionary")
		}
		if e := r.readMessage(m); e != nil {
			return e
		}
	}
	return nil
}

func (r *Request) readMessage(m jsondoc.Value) *apierror.Error {
	author, content := m.Get("role"), m.Get("content")
	if e := r.needString(author, m, "role"); e != nil {
		return e
	}
	if r.messageRole(m) == roleUnknown {
		return r.notOneOf(author, "user", "assistant", "system")
	}
	if c := m.Get("output_config"); clientapi.Given(c) {
		if e := r.checkObject(c); e != nil {
			return e
		}
		if effort := c.Get("effort"); clientapi.Given(effort) {
			if e := r.checkString(effort); e != nil {
				return e
			}
			r.facts.Flags |= clientapi.FlagReasoning
		}
	}
	switch content.Kind() {
	case jsondoc.String:
		r.facts.TextBytes += len(content.Inside())
		return nil
	case jsondoc.Array:
	case jsondoc.Invalid:
		return r.missing(m, "content")
	default:
		return r.wrongType(content, "string or list")
	}
	before := r.foreignBlocks
	if e := r.readBlocks(content, 0); e != nil {
		return e
	}
	if r.foreignBlocks > before {
		r.cutReasoning(m, content)
	}
	return nil
}

// kind is the type of a content block.
type kind uint8

const (
	blockUnknown kind = iota
	blockText
	blockImage
	blockDocument
	blockSearchResult
	blockThinking
	blockRedactedThinking
	blockToolUse
	blockToolResult
	blockToolReference
	blockToolAddition
	blockToolRemoval
	blockCompaction
	blockServer // uses and results of server tools, and other blocks that record what the provider did
)

// parseKind returns the kind of a block by its type.
func parseKind(typ []byte) kind {
	switch string(typ) {
	case "text":
		return blockText
	case "image":
		return blockImage
	case "document":
		return blockDocument
	case "search_result":
		return blockSearchResult
	case "thinking":
		return blockThinking
	case "redacted_thinking":
		return blockRedactedThinking
	case "tool_use":
		return blockToolUse
	case "tool_result":
		return blockToolResult
	case "tool_reference":
		return blockToolReference
	case "tool_addition":
		return blockToolAddition
	case "tool_removal":
		return blockToolRemoval
	case "compaction":
		return blockCompaction
	case "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
		"bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result", "advisor_tool_result",
		"mcp_tool_use", "mcp_tool_result", "container_upload", "fallback":
		return blockServer
	}
	return blockUnknown
}

// block holds the members of a content block. Which of them it has depends on the kind.
type block struct {
	self, typ jsondoc.Value
	kind      kind

	text, thinking, signature, data       jsondoc.Value
	id, name, input, toolUseID, isError   jsondoc.Value
	source, content, title, context       jsondoc.Value
	citations, cacheControl, caller, tool jsondoc.Value
	toolName                              jsondoc.Value
	other                                 jsondoc.Value // the first unknown member
}

// scanBlock finds the members of a block, which must be an object. A member that is null counts as absent.
func (r *Request) scanBlock(v jsondoc.Value, b *block) {
	*b = block{self: v}
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() == jsondoc.Null {
			continue
		}
		switch string(r.keyword(c.Name())) {
		case "type":
			b.typ, b.kind = c, parseKind(r.keyword(c))
		case "text":
			b.text = c
		case "thinking":
			b.thinking = c
		case "signature":
			b.signature = c
		case "data":
			b.data = c
		case "id":
			b.id = c
		case "name":
			b.name = c
		case "input":
			b.input = c
		case "tool_use_id":
			b.toolUseID = c
		case "is_error":
			b.isError = c
		case "source":
			b.source = c
		case "content":
			b.content = c
		case "title":
			b.title = c
		case "context":
			b.context = c
		case "citations":
			b.citations = c
		case "cache_control":
			b.cacheControl = c
		case "caller":
			b.caller = c
		case "tool":
			b.tool = c
		case "tool_name":
			b.toolName = c
		default:
			if !b.other.Exists() {
				b.other = c
			}
		}
	}
}

// maxNested is the deepest nesting of blocks: a document in a tool result has blocks of its own.
const maxNested = 2

// readBlocks checks a list of content blocks. nested is the number of blocks around the list.
func (r *Request) readBlocks(list jsondoc.Value, nested int) *apierror.Error {
	var b block
	for v := list.First(); v.Exists(); v = v.Next() {
		if v.Kind() != jsondoc.Object {
			return r.wrongType(v, "dictionary")
		}
		r.scanBlock(v, &b)
		if e := r.needString(b.typ, v, "type"); e != nil {
			return e
		}
		if e := r.readCacheControl(b.cacheControl); e != nil {
			return e
		}
		if e := r.readBlock(&b, nested); e != nil {
			return e
		}
		if nested == 0 && r.foreign(&b) {
			r.foreignBlocks++
		}
	}
	return nil
}

func (r *Request) readBlock(b *block, nested int) *apierror.Error {
	f := &r.facts
	switch b.kind {
	case blockText:
		f.TextBytes += len(b.text.Inside())
		return r.needString(b.text, b.self, "text")
	case blockImage:
		f.Flags |= clientapi.FlagImages
		f.Images++
		_, e := r.readSource(b)
		return e
	case blockDocument:
		return r.readDocument(b, nested)
	case blockSearchResult:
		f.TextBytes += len(b.content.Raw()) + len(b.title.Inside()) + len(b.source.Inside())
		if e := r.needString(b.source, b.self, "source"); e != nil {
			return e
		}
		if e := r.needString(b.title, b.self, "title"); e != nil {
			return e
		}
		if e := r.needKind(b.content, b.self, "content", jsondoc.Array, "list"); e != nil || nested >= maxNested {
			return e
		}
		return r.readTexts(b.content)
	case blockThinking:
		f.Flags |= clientapi.FlagReasoningHistory
		f.TextBytes += len(b.thinking.Inside())
		if e := r.needString(b.thinking, b.self, "thinking"); e != nil {
			return e
		}
		return r.checkString(b.signature)
	case blockRedactedThinking:
		f.Flags |= clientapi.FlagReasoningHistory
		f.TextBytes += len(b.data.Inside())
		return r.needString(b.data, b.self, "data")
	case blockToolUse:
		f.Flags |= clientapi.FlagToolHistory
		f.TextBytes += len(b.name.Inside()) + len(b.input.Raw())
		if e := r.needID(b.id, b.self, "id"); e != nil {
			return e
		}
		if e := r.needName(b.name, b.self, "name"); e != nil {
			return e
		}
		return r.needObject(b.input, b.self, "input")
	case blockToolResult:
		return r.readToolResult(b, nested)
	}
	// The provider validates all other kinds.
	f.TextBytes += len(b.self.Raw())
	return nil
}

// readTexts checks a list of text blocks.
func (r *Request) readTexts(list jsondoc.Value) *apierror.Error {
	for v := list.First(); v.Exists(); v = v.Next() {
		if v.Kind() != jsondoc.Object {
			return r.wrongType(v, "dictionary")
		}
		if e := r.needString(v.Get("text"), v, "text"); e != nil {
			return e
		}
	}
	return nil
}

// readSource checks the source of an image or a document and returns its type.
func (r *Request) readSource(b *block) (typ jsondoc.Value, e *apierror.Error) {
	if e := r.needObject(b.source, b.self, "source"); e != nil {
		return typ, e
	}
	typ = b.source.Get("type")
	if e := r.needString(typ, b.source, "type"); e != nil {
		return typ, e
	}
	var members []string
	switch string(r.keyword(typ)) {
	case "base64", "text":
		members = []string{"media_type", "data"}
	case "url":
		members = []string{"url"}
	case "file":
		members = []string{"file_id"}
	}
	for _, name := range members {
		if e := r.needString(b.source.Get(name), b.source, name); e != nil {
			return typ, e
		}
	}
	return typ, nil
}

// readDocument checks a document, whose source may contain blocks.
func (r *Request) readDocument(b *block, nested int) *apierror.Error {
	f := &r.facts
	f.TextBytes += len(b.title.Inside()) + len(b.context.Inside())
	for _, v := range [...]jsondoc.Value{b.title, b.context} {
		if e := r.checkString(v); e != nil {
			return e
		}
	}
	typ, e := r.readSource(b)
	if e != nil {
		return e
	}
	switch string(r.keyword(typ)) {
	case "text":
		f.TextBytes += len(b.source.Get("data").Inside())
		return nil
	case "content":
		content := b.source.Get("content")
		switch content.Kind() {
		case jsondoc.String:
			f.TextBytes += len(content.Inside())
			return nil
		case jsondoc.Array:
			if nested >= maxNested {
				return r.invalid(b.self, clientapi.CodeInvalidValue, "Documents must not contain documents")
			}
			return r.readBlocks(content, maxNested)
		}
		return r.needKind(content, b.source, "content", jsondoc.String, "string or list")
	}
	f.Flags |= clientapi.FlagFiles
	return nil
}

func (r *Request) readToolResult(b *block, nested int) *apierror.Error {
	r.facts.Flags |= clientapi.FlagToolHistory
	if nested > 0 {
		return r.invalid(b.self, clientapi.CodeInvalidValue, "`tool_result` blocks can only be specified in messages")
	}
	if e := r.needID(b.toolUseID, b.self, "tool_use_id"); e != nil {
		return e
	}
	if _, e := r.checkBool(b.isError); e != nil {
		return e
	}
	switch b.content.Kind() {
	case jsondoc.Invalid:
		return nil
	case jsondoc.String:
		r.facts.TextBytes += len(b.content.Inside())
		return nil
	case jsondoc.Array:
		return r.readBlocks(b.content, 1)
	}
	return r.wrongType(b.content, "string or list")
}
