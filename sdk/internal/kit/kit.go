// Command kit is a plugin for the tests of the SDK. Its options and its upstream's events select the SDK features to
// use, so that each feature is tested both natively and as a module.
package main

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[kit]() }

func main() {}

// kit is one use of the plugin.
type kit struct {
	settings json.Value
}

var (
	_ provider.Configurer = (*kit)(nil)
	_ provider.Former     = (*kit)(nil)
	_ provider.Reader     = (*kit)(nil)
	_ provider.Ender      = (*kit)(nil)
	_ provider.Lister     = (*kit)(nil)
)

var (
	errSettings = errors.New("the settings are refused")
	errAsked    = errors.New("requested error")
)

// Configure rejects settings that contain "refuse".
func (k *kit) Configure(settings json.Value) error {
	k.settings = settings
	if refuse, _ := settings.Get("refuse").Bool(); refuse {
		return errSettings
	}
	return nil
}

// Forms returns the forms in the settings.
func (k *kit) Forms() abi.Forms {
	forms, _ := k.settings.Get("forms").Int()
	return abi.Forms(forms)
}

// Request runs the action that the option "do" selects.
func (k *kit) Request(r *provider.Request) error {
	switch string(r.Options.Get("do").Text()) {
	case "summary":
		return k.summary(r)
	case "form":
		r.SetPath("/kit")
		r.SetHeader("x-kit", string(json.AppendInt(nil, int64(r.Form)))+" "+string(json.AppendInt(nil, int64(r.ClientForm)))+" "+string(r.Betas))
		r.SetText("/model", r.Target)
		r.Expect(abi.FramingJSON, abi.DialectMessages, nil)
		return nil
	case "write":
		return k.write(r)
	case "parts":
		return k.parts(r)
	case "edit":
		return k.edit(r)
	case "json events":
		r.SetPath("/kit")
		r.Expect(abi.FramingSSE|abi.FramingEventsAreJSON, abi.DialectTranslated, nil)
		if sdk.HostMinor() < abi.Minor {
			return errAsked
		}
		return nil
	case "fail":
		return &sdk.Failure{Kind: abi.FailRateLimit, Code: "kit_limit", Param: "model", Message: "Not now.", RetryAfter: 1500}
	case "refuse":
		return sdk.Refuse("tools", "No tools.")
	case "error":
		return errAsked
	case "panic":
		panic("requested panic")
	case "path":
		r.SetPath("/elsewhere")
		return nil
	case "header":
		r.SetPath("/kit")
		r.SetHeader("authorization", "mine")
		return nil
	}
	r.SetPath("/kit")
	r.Expect(abi.FramingSSE, abi.DialectTranslated, nil)
	return nil
}

// summary sends the summary that it received to the upstream.
func (k *kit) summary(r *provider.Request) error {
	r.SetPath("/kit")
	w := r.JSON()
	w.Object()
	w.Name("id")
	w.Text(r.RequestID)
	w.Name("time")
	w.Int(r.Time)
	w.Name("attempt")
	w.Int(r.Attempt)
	w.Name("random")
	w.Raw(json.AppendUint(nil, r.Random))
	w.Name("stream")
	w.Bool(r.Stream)
	w.Name("usage")
	w.Bool(r.IncludeUsage)
	w.Name("model")
	w.Text(r.Model)
	w.Name("target")
	w.Text(r.Target)
	w.Name("limits")
	w.Array()
	w.Int(r.MaxTokens)
	w.Int(r.DefaultMaxTokens)
	w.EndArray()
	w.Name("flags")
	w.Int(int64(r.Flags))
	w.Name("tools")
	w.Bool(r.Has(sdk.FlagTools | sdk.FlagThinking))
	w.Name("size")
	w.Bool(r.BodySize == int64(len(r.Body())))
	w.Name("options")
	w.Raw(r.Options)
	w.Name("settings")
	w.Raw(k.settings)
	w.EndObject()
	return nil
}

// write writes a body that contains parts of the client's messages.
func (k *kit) write(r *provider.Request) error {
	r.SetPath("/kit?q=%20")
	r.SetHeader("X-Kit", "1")
	w := r.JSON()
	w.Object()
	var in json.Reader
	in.Reset(r.Body())
	for o := in.Object(); o.Next(); {
		name := string(in.Name())
		if name != "messages" {
			in.Skip()
			continue
		}
		w.Name("turns")
		w.Array()
		for a := in.Array(); a.Next(); {
			for o := in.Object(); o.Next(); {
				if string(in.Name()) == "content" {
					w.Raw(in.Raw())
				}
			}
		}
		w.EndArray()
	}
	w.Name("first")
	w.Raw(r.Get("/messages/0/content"))
	w.Name("missing")
	w.Bool(r.Exists("/missing"))
	w.Name("there")
	w.Bool(r.Exists("/messages/0/role"))
	w.EndObject()
	return in.End()
}

// parts writes a body whose parts are written out of order.
func (k *kit) parts(r *provider.Request) error {
	r.SetPath("/kit")
	r.JSON().Object()
	turns := r.Part(2)
	turns.Field("turns").Array()
	var in json.Reader
	in.Reset(r.Body())
	for o := in.Object(); o.Next(); {
		if string(in.Name()) != "messages" {
			continue
		}
		for a := in.Array(); a.Next(); {
			turns.Raw(in.Raw())
			turns.Flush()
		}
	}
	turns.EndArray()
	first := r.Part(1)
	if n := r.Options.Get("count"); n.Exists() {
		first.Field("count").Raw(n)
	}
	first.Comma()
	turns.Field("stream").Bool(r.Stream)
	turns.EndObject()
	return in.End()
}

// edit edits the client's body and reports the results of the edits.
func (k *kit) edit(r *provider.Request) error {
	r.SetPath("/kit")
	results := []bool{
		r.SetText("/model", []byte("a \"b\"")),
		r.SetInt("/max_tokens", -7),
		r.Set("/messages/0/extra", []byte(`[1]`)),
		r.Delete("/temperature"),
		r.Delete("/missing"),
		r.Rename("/top_p", "nucleus"),
		r.Rename("/missing", "x"),
		r.Replace("/messages/*/role", `"user"`, `"human"`),
		r.Replace("/messages/*/role", `"nobody"`, `"x"`),
	}
	answers := []byte("answers ")
	for _, ok := range results {
		if ok {
			answers = append(answers, '1')
		} else {
			answers = append(answers, '0')
		}
	}
	r.Warn(abi.WarnChanged, string(answers))
	r.Warn(abi.WarnDropped, "temperature")
	r.Warn(abi.WarnClamped, "max_tokens")
	if !r.ToolAlias([]byte("tool_1"), []byte("tool.one")) {
		return errAsked
	}
	return nil
}

// Response reads a non-streaming response, {"events":[…]}. Event describes the events.
func (k *kit) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return &sdk.Failure{Kind: abi.FailServer, Message: string(json.Value(body).Get("message").Text())}
	}
	var in json.Reader
	in.Reset(body)
	for o := in.Object(); o.Next(); {
		for e := in.Array(); e.Next(); {
			if err := k.emit(a, in.Raw()); err != nil {
				return err
			}
		}
	}
	return in.End()
}

// Event makes the call of Answer that the event's data describes.
func (k *kit) Event(a *provider.Answer, e *provider.Event) error {
	if string(e.Name) == "unknown" {
		a.Unknown(e.Name)
		return nil
	}
	return k.emit(a, e.Data)
}

// End reports the final state.
func (k *kit) End(a *provider.Answer) error {
	if s := a.State(); len(s) > 0 {
		a.Text(0, abi.EncodingUTF8, append([]byte("state: "), s...))
		a.Finish(0, abi.FinishStop, nil)
		a.Done()
	}
	return nil
}

// emit makes one call of Answer, given as ["name", argument, …].
func (k *kit) emit(a *provider.Answer, data []byte) error {
	var in json.Reader
	in.Reset(data)
	args := in.Array()
	next := func() *json.Reader {
		args.Next()
		return &in
	}
	number := func() int32 {
		n, _ := next().Int()
		return int32(n)
	}
	switch name := string(next().Text()); name {
	case "start":
		id, model := next().Text(), next().Text()
		a.Start(id, model, string(next().Text()))
	case "text":
		enc := abi.Encoding(number())
		a.Text(0, enc, encoded(next(), enc))
	case "refusal":
		a.Refusal(0, abi.EncodingEscaped, next().Inside())
	case "reasoning":
		part, key := abi.ReasoningPart(number()), number()
		a.Reasoning(0, part, key, abi.EncodingEscaped, next().Inside())
	case "tool":
		key := number()
		id := next().Text()
		a.ToolCall(0, key, id, next().Text())
	case "arguments":
		key, enc := number(), abi.Encoding(number())
		if !a.ToolArguments(0, key, enc, encoded(next(), enc)) {
			a.Text(0, abi.EncodingUTF8, []byte("[no such call]"))
		}
	case "tool_end":
		a.ToolEnd(0, number())
	case "extra":
		scope, key := abi.Scope(number()), number()
		member := string(next().Text())
		if !a.Extra(scope, 0, key, member, next().Raw()) {
			a.Text(0, abi.EncodingUTF8, []byte("[refused]"))
		}
	case "length":
		a.Text(0, abi.EncodingUTF8, json.AppendInt([]byte("length "), a.TextLength(0)))
	case "usage":
		kind := abi.UsageKind(number())
		a.Usage(kind, int64(number()))
	case "header":
		h := a.Header(string(next().Text()))
		if h == nil {
			h = []byte("none")
		}
		a.Text(0, abi.EncodingUTF8, h)
	case "remember":
		state := append(append([]byte(nil), a.State()...), next().Text()...)
		if !a.SetState(state) {
			a.Text(0, abi.EncodingUTF8, []byte("[too much]"))
		}
	case "remember much":
		if !a.SetState(make([]byte, abi.MaxState+1)) {
			a.Text(0, abi.EncodingUTF8, []byte("[too much]"))
		}
	case "openai":
		if !a.OpenAIEvent(next().Raw()) {
			a.Text(0, abi.EncodingUTF8, []byte("[not openai]"))
		}
	case "finish":
		reason := abi.FinishReason(number())
		a.Finish(0, reason, next().Text())
	case "done":
		a.Done()
	case "done at end":
		a.DoneAtEnd()
	case "log":
		sdk.Log(abi.LogInfo, string(next().Text()))
	case "fail":
		return sdk.Fail(abi.FailOverloaded, string(next().Text()))
	case "error":
		return errAsked
	default:
		a.Unknown([]byte(name))
	}
	for args.Next() {
	}
	return in.End()
}

// encoded reads an argument in the given encoding.
func encoded(in *json.Reader, enc abi.Encoding) []byte {
	switch enc & abi.EncodingMask {
	case abi.EncodingEscaped:
		return in.Inside()
	case abi.EncodingJSON:
		return in.Raw()
	}
	return in.Text()
}

// List requests the page that the cursor stands for.
func (k *kit) List(l *provider.List, cursor []byte) error {
	if none, _ := k.settings.Get("no list").Bool(); none {
		return nil
	}
	l.SetHeader("x-kit", "list")
	l.SetPath("/models?after=" + string(cursor))
	return nil
}

// Models reads {"models":[[id, name, owner, created, max_tokens, thinking, input, output], …],"next":cursor}.
func (k *kit) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return sdk.Fail(abi.FailAuth, "")
	}
	var in json.Reader
	in.Reset(body)
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "models":
			for a := in.Array(); a.Next(); {
				m.Add(readModel(&in))
			}
		case "next":
			m.More(in.Text())
		case "header":
			m.More(m.Header(string(in.Text())))
		default:
			m.Unknown(in.Name())
		}
	}
	return in.End()
}

func readModel(in *json.Reader) *provider.Model {
	var model provider.Model
	a := in.Array()
	next := func() *json.Reader {
		a.Next()
		return in
	}
	model.ID = next().Text()
	model.DisplayName = next().Text()
	model.OwnedBy = next().Text()
	model.Created, _ = next().Int()
	model.MaxTokens, _ = next().Int()
	model.Thinking, _ = next().Bool()
	model.InputPrice = next().Raw()
	model.OutputPrice = next().Raw()
	for a.Next() {
	}
	return &model
}
