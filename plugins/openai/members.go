package openai

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// checkSupported rejects a request with unsupported members and removes those with a default value.
func checkSupported(r *provider.Request, o *options) error {
	if o.refuse.Exists() {
		if err := rejectMembers(r, o.refuse); err != nil {
			return err
		}
	}
	if r.Has(sdk.FlagResponseFormat) {
		switch kind := r.Get("/response_format/type"); {
		case kind.Is("json_object"):
		case kind.Is("json_schema") && o.objectFormat:
			return sdk.Refuse("response_format", "The provider supports response_format of type json_object, not json_schema.")
		case !kind.Is("json_schema") && !o.accepts("response_format", string(kind)):
			return sdk.Refuse("response_format.type", "The provider does not support this response format.")
		}
	}
	if r.Has(sdk.FlagFiles) && !o.accepts("content", `"video_url"`) {
		return rejectVideo(r)
	}
	return nil
}

// rejectVideo rejects a conversation that contains a video.
func rejectVideo(r *provider.Request) error {
	for i := int64(0); ; i++ {
		message := "/messages/" + string(json.AppendInt(nil, i))
		if !r.Exists(message) {
			return nil
		}
		for n := int64(0); ; n++ {
			kind := r.Get(message + "/content/" + string(json.AppendInt(nil, n)) + "/type")
			if !kind.Exists() {
				break
			}
			if kind.Is("video_url") {
				return translate.Unsupported("messages["+translate.Itoa(i)+"].content["+translate.Itoa(n)+"]", "The provider does not support content of this type.")
			}
		}
	}
}

// rejectMembers rejects a request with one of the given members. If its value has no effect, it is removed instead.
func rejectMembers(r *provider.Request, members json.Value) error {
	var in json.Reader
	in.Reset(members)
	for a := in.Array(); a.Next(); {
		name := string(in.Text())
		value := r.Get(pointer([]byte(name)))
		switch {
		case name == "" || !value.Exists():
		case isDefault(name, value):
			r.Delete(pointer([]byte(name)))
		default:
			return sdk.Refuse(name, "The provider does not support this parameter.")
		}
	}
	return nil
}

// isDefault reports whether a member has the same effect as its absence.
func isDefault(name string, v json.Value) bool {
	switch v.Kind() {
	case json.Null:
		return true
	case json.Bool:
		on, _ := v.Bool()
		return on == (name == "parallel_tool_calls") // parallel_tool_calls is on by default
	case json.Number:
		n, _ := v.Float()
		return n == 1 && (name == "n" || name == "temperature" || name == "top_p") || n == 0 && (name == "frequency_penalty" || name == "presence_penalty")
	case json.String:
		return v.Is("") || name == "tool_choice" && v.Is("auto")
	case json.Array:
		var in json.Reader
		in.Reset(v)
		for a := in.Array(); a.Next(); {
			if name != "modalities" || string(in.Text()) != "text" {
				return false
			}
		}
		return true
	case json.Object:
		var in json.Reader
		in.Reset(v)
		return !in.Object().Next()
	}
	return false
}

// renameMembers gives members the upstream's names. If the new name is present as well, the client used the upstream's
// name, and the old member is removed.
func renameMembers(r *provider.Request, names json.Value) {
	if !names.Exists() {
		return
	}
	var in json.Reader
	in.Reset(names)
	for o := in.Object(); o.Next(); {
		old := string(in.Name())
		path := pointer([]byte(old))
		if !r.Exists(path) {
			continue
		}
		if !r.Rename(path, string(in.Text())) {
			r.Delete(path)
			r.Warn(abi.WarnDropped, old)
		}
	}
}

// dropMembers removes the members that the operator lists as unsupported.
func dropMembers(r *provider.Request, members json.Value) {
	if !members.Exists() {
		return
	}
	var in json.Reader
	in.Reset(members)
	for a := in.Array(); a.Next(); {
		name := string(in.Text())
		if name == "" {
			continue
		}
		path := name
		if name[0] != '/' {
			path = pointer([]byte(name))
		}
		if r.Delete(path) && hadEffect(r, path) {
			r.Warn(abi.WarnDropped, name)
		}
	}
}

// hadEffect reports whether the value removed at a path had an effect: assistant messages may have members that are
// null or empty. It does not look at paths with a second *.
func hadEffect(r *provider.Request, path string) bool {
	list, rest, star := cutStar(path)
	if !star {
		return !isDefault(path[1:], r.Get(path))
	}
	if _, _, more := cutStar(rest); more {
		return true
	}
	for i := int64(0); ; i++ {
		element := list + "/" + string(json.AppendInt(nil, i))
		if !r.Exists(element) {
			return false
		}
		if v := r.Get(element + rest); v.Exists() && !isDefault("", v) {
			return true
		}
	}
}

// cutStar splits a path around its first * token.
func cutStar(path string) (before, after string, found bool) {
	for i := range len(path) - 1 {
		if path[i:i+2] == "/*" && (i+2 == len(path) || path[i+2] == '/') {
			return path[:i], path[i+2:], true
		}
	}
	return path, "", false
}

// setMembers sets members to the operator's values.
func setMembers(r *provider.Request, members json.Value) {
	if !members.Exists() {
		return
	}
	var in json.Reader
	in.Reset(members)
	for o := in.Object(); o.Next(); {
		path := pointer(in.Name())
		r.Set(path, in.Raw())
	}
}

// isForeign reports whether the upstream rejects a member of a request that the gateway has translated from another API.
// Clients of those APIs set the member for every model. Chat completions clients know what their upstream accepts.
func isForeign(r *provider.Request, o *options, name string) bool {
	if r.ClientForm == abi.FormChat {
		return false
	}
	switch name {
	case "top_k":
		return !o.accepts("members", `"top_k"`)
	case "temperature", "top_p", "presence_penalty", "frequency_penalty":
		return reasonsByDefault(r.Target)
	}
	return false
}

// dropForeign removes the foreign members.
func dropForeign(r *provider.Request, o *options) {
	for _, name := range [...]string{"top_k", "temperature", "top_p", "presence_penalty", "frequency_penalty"} {
		if isForeign(r, o, name) && r.Delete("/"+name) && !isDefault(name, r.Get("/"+name)) {
			r.Warn(abi.WarnDropped, name)
		}
	}
}

// pointer returns the JSON pointer of a member of the body.
func pointer(name []byte) string {
	p := []byte{'/'}
	for _, c := range name {
		switch c {
		case '~':
			p = append(p, "~0"...)
		case '/':
			p = append(p, "~1"...)
		default:
			p = append(p, c)
		}
	}
	return string(p)
}
