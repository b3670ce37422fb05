package openai

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// history edits earlier turns: it converts reasoning to a form that the upstream accepts, replaces IDs of tool calls,
// and removes members that exist only in the gateway's own format. Of the messages, only the members that it has to
// look at are copied into the plugin.
type history struct {
	ids   toolIDs
	names translate.ToolNames
	path  []byte // buffer for memberPath
	out   json.Writer
}

// The forms in which reasoning is one text.
const textForms = keepContent | asReasoning | asPart

// edit edits the conversation. It returns a failure if that takes more edits than a request may have.
func (h *history) edit(r *provider.Request, o *options) error {
	h.ids.reset()
	if r.Has(sdk.FlagCacheControl) && !o.cacheControl {
		message := r.Delete("/messages/*/cache_control")
		part := r.Delete("/messages/*/content/*/cache_control")
		tool := r.Delete("/tools/*/cache_control")
		if r.Delete("/cache_control") || message || part || tool {
			r.Warn(abi.WarnDropped, "cache_control")
		}
	}
	failed := r.Has(sdk.FlagToolHistory) && r.Delete("/messages/*/is_error")
	reasoning := r.Has(sdk.FlagReasoningHistory)
	rewrite := reasoning && o.history&textForms != 0
	renumber := r.Has(sdk.FlagToolHistory) && o.nineLetters
	complete := r.Has(sdk.FlagToolHistory) && o.objectArguments
	rename := false
	if r.Has(sdk.FlagToolNames) {
		h.names = o.toolNames(r)
		if rename = h.names.Rule.Max > 0; rename && !h.renameTools(r) {
			return sdk.Refuse("tools", "The request has too many tools for this provider.")
		}
	}
	for i := 0; (rewrite || renumber || complete || failed || rename) && r.Exists(h.memberPath(i, "")); i++ {
		if rewrite && !h.rewriteReasoning(r, o, i) || renumber && !h.rewriteToolIDs(r, i) || complete && !h.replaceInvalidArguments(r, i) || failed && !h.markFailed(r, i) || rename && !h.renameCalls(r, i) {
			return sdk.Refuse("messages", "The conversation has too many messages for this provider.")
		}
	}
	if reasoning {
		h.removeUnsupported(r, o, rewrite)
	}
	return nil
}

// removeUnsupported removes the members that the upstream does not know. If rewritten is true, the reasoning is sent as
// text, so its other forms are removed without a warning.
func (h *history) removeUnsupported(r *provider.Request, o *options, rewritten bool) {
	for i, member := range historyForms[:3] {
		if o.history&(1<<i) == 0 && r.Delete("/messages/*/"+member) && !rewritten {
			r.Warn(abi.WarnDropped, "messages[]."+member)
		}
	}
}

// memberPath returns the path of a member of a message, or of the message itself if member is empty. It is valid until
// the next call.
func (h *history) memberPath(i int, member string) string {
	h.path = append(json.AppendInt(append(h.path[:0], "/messages/"...), int64(i)), member...)
	return string(h.path)
}

// rewriteReasoning converts the reasoning of message i to a form that the upstream accepts. It returns false if the
// request has too many edits.
func (h *history) rewriteReasoning(r *provider.Request, o *options, i int) bool {
	content := r.Get(h.memberPath(i, "/reasoning_content"))
	details := r.Get(h.memberPath(i, "/reasoning_details"))
	blocks := r.Exists(h.memberPath(i, "/thinking_blocks"))
	hasDetails := details.Kind() == json.Array && !isDefault("", details)
	switch {
	case hasDetails && o.history&keepDetails != 0, blocks && o.history&keepBlocks != 0:
		return true // the richer form suffices
	case !content.Exists() && !hasDetails && !blocks:
		return true
	}
	h.out.Reset()
	h.out.Buf = append(h.out.Buf, '"')
	switch {
	case hasDetails:
		h.appendTexts(details, o.answer.Get("reasoning_format"))
	case !blocks: // blocks belong to another provider
		h.out.Buf = append(h.out.Buf, content.Inside()...)
	}
	if len(h.out.Buf) == 1 {
		if content.Exists() && len(content.Inside()) > 0 || hasDetails || blocks {
			r.Warn(abi.WarnDropped, "messages[].reasoning_content")
		}
		return !content.Exists() || r.Delete(h.memberPath(i, "/reasoning_content"))
	}
	text := append(h.out.Buf, '"')
	h.out.Buf = text
	switch {
	case o.history&keepContent != 0:
		return string(content) == string(text) || r.Set(h.memberPath(i, "/reasoning_content"), text)
	case o.history&asReasoning != 0:
		return r.Set(h.memberPath(i, "/reasoning"), text)
	}
	return h.prependThinkingPart(r, i, text)
}

// appendTexts appends the text of reasoning_details, still escaped. It skips entries whose format names another
// provider.
func (h *history) appendTexts(details json.Value, own json.Value) {
	var in json.Reader
	in.Reset(details)
	for a := in.Array(); a.Next(); {
		var text, summary, format []byte
		for o := in.Object(); o.Next(); {
			switch string(in.Name()) {
			case "text":
				text = in.Inside()
			case "summary":
				summary = in.Inside()
			case "format":
				format = in.Inside()
			}
		}
		if len(format) > 0 && string(format) != string(own.Inside()) {
			continue
		}
		h.out.Buf = append(append(h.out.Buf, text...), summary...)
	}
}

// prependThinkingPart makes the content of message i an array of parts that begins with its reasoning.
func (h *history) prependThinkingPart(r *provider.Request, i int, reasoning []byte) bool {
	content := r.Get(h.memberPath(i, "/content"))
	var w json.Writer
	w.Array()
	w.Object()
	w.Name("type")
	w.String("thinking")
	w.Name("thinking")
	w.Array()
	writeText(&w, reasoning)
	w.EndArray()
	w.EndObject()
	switch content.Kind() {
	case json.String:
		if len(content.Inside()) > 0 {
			writeText(&w, content)
		}
	case json.Array:
		var in json.Reader
		in.Reset(content)
		for a := in.Array(); a.Next(); {
			w.Raw(in.Raw())
		}
	}
	w.EndArray()
	return r.Set(h.memberPath(i, "/content"), w.Buf)
}

// writeText writes a text part. text is a JSON string.
func writeText(w *json.Writer, text []byte) {
	w.Object()
	w.Name("type")
	w.String("text")
	w.Name("text")
	w.Raw(text)
	w.EndObject()
}

// replaceInvalidArguments replaces arguments of message i that are not a JSON object, such as those of a truncated
// response. An upstream that parses them would reject every later turn of the conversation. Like the functions below,
// it returns false if the request has too many edits.
func (h *history) replaceInvalidArguments(r *provider.Request, i int) bool {
	for k := 0; ; k++ {
		path := h.memberPath(i, "/tool_calls") + "/" + translate.Itoa(k)
		if !r.Exists(path) {
			return true
		}
		given := r.Get(path + "/function/arguments").Text()
		if given == nil {
			continue // a custom tool
		}
		object, ok := translate.Arguments(given)
		if ok && len(given) > 0 {
			continue
		}
		if !ok {
			r.Warn(abi.WarnChanged, "messages["+translate.Itoa(i)+"].tool_calls["+translate.Itoa(k)+"].function.arguments")
		}
		if !r.SetText(path+"/function/arguments", object) {
			return false
		}
	}
}

// markFailed makes the text of message i begin with "Error:" if it is the result of a failed tool, because the API has
// no member for that.
func (h *history) markFailed(r *provider.Request, i int) bool {
	if failed, _ := r.Get(h.memberPath(i, "/is_error")).Bool(); !failed || !r.Get(h.memberPath(i, "/role")).Is("tool") {
		return true
	}
	path := h.memberPath(i, "/content")
	text := r.Get(path)
	if text.Kind() == json.Array {
		path += "/0/text" // the texts of a result come first
		text = r.Get(path)
	}
	if text.Kind() != json.String {
		return true
	}
	h.out.Buf = append(append(append(h.out.Buf[:0], '"'), translate.FailedText(text.Inside())...), '"')
	return r.Set(path, h.out.Buf)
}

// rewriteToolIDs gives the tool calls of message i, or the reference to a call, IDs that the upstream accepts.
func (h *history) rewriteToolIDs(r *provider.Request, i int) bool {
	if !h.rewriteToolID(r, h.memberPath(i, "/tool_call_id")) {
		return false
	}
	for k := 0; r.Exists(h.memberPath(i, "/tool_calls") + "/" + string(json.AppendInt(nil, int64(k)))); k++ {
		if !h.rewriteToolID(r, h.memberPath(i, "/tool_calls")+"/"+string(json.AppendInt(nil, int64(k)))+"/id") {
			return false
		}
	}
	return true
}

func (h *history) rewriteToolID(r *provider.Request, path string) bool {
	id := r.Get(path).Text()
	if id == nil {
		return true
	}
	alias := h.ids.alias(string(id))
	return alias == string(id) || r.SetText(path, []byte(alias))
}

// nameRule is OpenAI's rule for the names of tools.
var nameRule = translate.NameRule{Max: 64, Others: "-", Digit: true}

// toolNames returns the aliases of a request's tools.
func (o *options) toolNames(r *provider.Request) translate.ToolNames {
	names := translate.ToolNames{Request: r}
	if !o.accepts("tool_names", `"any"`) {
		names.Rule = nameRule
	}
	return names
}

// renameTools replaces the names of tools that the upstream does not accept. Like the functions below, it returns false
// if the request has too many edits.
func (h *history) renameTools(r *provider.Request) bool {
	return h.renameEach(r, "/tools") && h.renameEach(r, "/tool_choice/allowed_tools/tools") && h.renameTool(r, "/tool_choice")
}

// renameCalls renames the tools that message i calls or, with the role tool, names.
func (h *history) renameCalls(r *provider.Request, i int) bool {
	if r.Get(h.memberPath(i, "/role")).Is("tool") {
		return h.rename(r, h.memberPath(i, "/name"))
	}
	return h.renameEach(r, h.memberPath(i, "/tool_calls"))
}

// renameEach renames the tools of a list.
func (h *history) renameEach(r *provider.Request, list string) bool {
	for k := 0; ; k++ {
		tool := list + "/" + translate.Itoa(k)
		if !r.Exists(tool) {
			return true
		}
		if !h.renameTool(r, tool) {
			return false
		}
	}
}

// renameTool renames a tool, a call, or a reference to a tool.
func (h *history) renameTool(r *provider.Request, tool string) bool {
	return h.rename(r, tool+"/function/name") && h.rename(r, tool+"/custom/name")
}

func (h *history) rename(r *provider.Request, path string) bool {
	name := r.Get(path)
	if name.Kind() != json.String {
		return true
	}
	fit := h.names.Fit(name.Inside())
	return string(fit) == string(name.Inside()) || r.SetText(path, fit)
}
