package plugindev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Mark is the result of the conformance suite for one rule of the plugin ABI.
type Mark struct {
	Rule   string
	Tried  int    // number of trials; 0 if the rule does not apply to the plugin
	Broken string // how the plugin broke the rule first; "" if it did not

	// Warnings are what breaks no rule, but is most likely a mistake. Only the last mark has any.
	Warnings []string
}

// scorer runs the rules on a plugin.
type scorer struct {
	ctx         context.Context
	suite       *Suite
	fresh, used *bindings // with a fresh instance for each call, and with instances that are reused
	tested      []Tested
	mistakes    mistakes // of variations of vectors
	marks       []Mark
}

// Score runs the conformance suite: it tests each rule of the plugin ABI that a plugin can break on variations of its
// vectors.
func (s *Suite) Score(ctx context.Context, h *Host, m Module) ([]Mark, error) {
	c := &scorer{ctx: ctx, suite: s}
	var err error
	if c.fresh, err = s.bind(ctx, h, Module{Name: m.Name, Wasm: m.Wasm, Fresh: true}); err != nil {
		return nil, err
	}
	defer c.fresh.close()
	if c.used, err = s.bind(ctx, h, m); err != nil {
		return nil, err
	}
	defer c.used.close()
	if len(s.cases) > 0 {
		if c.tested, err = s.Test(ctx, h, m, TestOptions{}); err != nil {
			return nil, err
		}
	}
	c.rule("options are accepted, or rejected with a reason", c.options)
	c.rule("each vector matches its want.txt", c.vectorFailures("fresh instance", func(f Failure) bool { return !strings.Contains(f.Text, "of its budget") }))
	c.rule("an instance keeps no state between calls", c.vectorFailures("instance that has served", nil))
	c.rule("the same input gives the same output and uses the same fuel", c.deterministic)
	c.rule("a call uses at most two thirds of its budget", c.vectorFailures("fresh instance", func(f Failure) bool { return strings.Contains(f.Text, "of its budget") }))
	if c.used.plugin.Provider() {
		c.provider()
	}
	if c.used.plugin.Router() {
		c.router()
	}
	if c.used.plugin.plugin.Filter() {
		c.filter()
	}
	c.marks = append(c.marks, Mark{Rule: "nothing looks like a mistake", Tried: 1, Warnings: warnings(m, c.tested, &c.mistakes)})
	return c.marks, nil
}

// trial tests a rule. It calls try once per case, with how the rule was broken, or "" if it was not.
type trial func(try func(broken string))

func (c *scorer) rule(text string, t trial) {
	m := Mark{Rule: text}
	t(func(broken string) {
		m.Tried++
		if m.Broken == "" {
			m.Broken = broken
		}
	})
	c.marks = append(c.marks, m)
}

// vectorFailures returns a trial with one try for each vector. The rule is broken if the vector has a failure whose
// Where starts with where and for which kind, unless nil, returns true.
func (c *scorer) vectorFailures(where string, kind func(Failure) bool) trial {
	return func(try func(string)) {
		for _, t := range c.tested {
			broken := ""
			for _, f := range t.Failures {
				if strings.HasPrefix(f.Where, where) && (kind == nil || kind(f)) {
					broken = fmt.Sprintf("%s: %s", t.Name, excerpt(f.Text, 4))
					break
				}
			}
			try(broken)
		}
	}
}

func (c *scorer) options(try func(string)) {
	for _, settings := range []string{c.suite.Use.Settings, `{}`, `{"x_sluice_unknown":{"a":[1]}}`, `{"":null}`} {
		_, err := c.used.plugin.Bind(c.ctx, Use{Settings: settings, Paths: c.suite.Use.Paths, Headers: c.suite.Use.Headers})
		broken := ""
		if e, ok := errors.AsType[*plugin.CallError](err); ok && (e.Kind != plugin.KindStatus || e.GuestMessage == "") {
			broken = fmt.Sprintf("%s: %v", settings, err)
		}
		try(broken)
	}
}

func (c *scorer) deterministic(try func(string)) {
	for _, one := range c.suite.cases {
		b, err := c.fresh.bindFor(c.ctx, one)
		if err != nil {
			continue
		}
		o, next := one.outcome(b), one.outcome(b)
		first, cost := o.text, o.cost
		again, costAgain := next.text, next.cost
		switch {
		case first != again:
			try(one.name() + ":\n" + Diff(first, again))
		case cost != costAgain:
			try(fmt.Sprintf("%s: fuel %+v, and then %+v", one.name(), cost, costAgain))
		default:
			try("")
		}
	}
}

// vectors calls f with a copy of each vector of a provider, which f may change, and its binding.
func (c *scorer) vectors(f func(v Vector, b *Binding)) {
	for _, v := range c.suite.Vectors() {
		if b, err := c.used.bindFor(c.ctx, v); err == nil {
			f(*v, b)
		}
	}
}

// streamVectors calls f with each vector of a provider whose response is one stream of text events that is read to its
// end.
func (c *scorer) streamVectors(f func(v Vector, b *Binding, events []Event, whole Result)) {
	c.vectors(func(v Vector, b *Binding) {
		if len(v.Answers) > 0 || v.Status != 200 || v.Truncated || frameOf(v.ContentType) == nil || !streams(v.Form) {
			return
		}
		r := v.Run(b, false)
		events := SplitEvents(v.ContentType, v.Response)
		if len(events) == 0 || r.Err != nil || r.Cost.Reads == 0 || runWithEvents(v, b, events, false).Response != r.Response {
			return // such as a stream whose last event is incomplete, which SplitEvents does not return
		}
		f(v, b, events, r)
	})
}

// frameOf returns a function that encodes an event of a text stream, or nil for other content types.
func frameOf(contentType string) func(e Event) string {
	switch contentType {
	case "text/event-stream":
		return func(e Event) string {
			name := ""
			if e.Name != "" {
				name = "event: " + e.Name + "\n"
			}
			return name + "data: " + strings.ReplaceAll(e.Data, "\n", "\ndata: ") + "\n\n"
		}
	case "application/x-ndjson":
		return func(e Event) string { return e.Data + "\n" }
	}
	return nil
}

// runWithEvents runs a vector with a response of these events.
func runWithEvents(v Vector, b *Binding, events []Event, stream bool) Result {
	var body strings.Builder
	frame := frameOf(v.ContentType)
	for _, e := range events {
		body.WriteString(frame(e))
	}
	v.Response = []byte(body.String())
	return v.Run(b, stream)
}

// describeBroken returns how the plugin itself failed in a vector, or "" if it did not.
func describeBroken(v *Vector, r Result) string {
	if !r.Broken {
		return ""
	}
	return fmt.Sprintf("%s: %v", v.Name, r.Err)
}

const maxTried = 24 // maximum number of positions in a stream that are tried

// provider tests the rules of providers.
func (c *scorer) provider() {
	c.rule("a stream has the same meaning however its bytes are split", c.vectorFailures("response ", nil))
	c.rule("a client that disconnects has no effect on others", c.vectorFailures("after a client", nil))
	c.rule("any instance can read any event of a stream", func(try func(string)) {
		c.streamVectors(func(v Vector, b *Binding, _ []Event, whole Result) {
			fresh, err := c.fresh.bindFor(c.ctx, &v)
			if err != nil {
				return
			}
			r := v.Run(fresh, false)
			try(describeDifference(&v, whole, r))
		})
	})
	c.rule("an unknown event is ignored", func(try func(string)) {
		unknown := Event{Name: "x_sluice_unknown", Data: `{"type":"x_sluice_unknown","x_sluice":[1,{"a":null}]}`}
		c.streamVectors(func(v Vector, b *Binding, events []Event, whole Result) {
			for _, at := range append(spread(len(events)-1, maxTried), 0) {
				try(describeDifference(&v, whole, runWithEvents(v, b, slices.Insert(slices.Clone(events), at, unknown), false)))
			}
		})
	})
	c.rule("unknown members of events are ignored", func(try func(string)) {
		c.streamVectors(func(v Vector, b *Binding, events []Event, whole Result) {
			more := slices.Clone(events)
			for i := range more {
				if rest, ok := strings.CutPrefix(more[i].Data, "{"); ok && json.Valid([]byte(more[i].Data)) && strings.TrimSpace(rest) != "}" {
					more[i].Data = `{"x_sluice_unknown":[1,{"a":null}],` + rest
				}
			}
			try(describeDifference(&v, whole, runWithEvents(v, b, more, false)))
		})
	})
	c.rule("a truncated event is the provider's failure", func(try func(string)) {
		c.streamVectors(func(v Vector, b *Binding, events []Event, whole Result) {
			for i, e := range events[:min(len(events), maxTried)] {
				if !strings.HasPrefix(e.Data, "{") || len(e.Data) < 4 || i >= whole.Cost.Reads {
					continue
				}
				torn := slices.Clone(events)
				torn[i].Data = e.Data[:len(e.Data)/2]
				r := runWithEvents(v, b, torn, false)
				broken := describeBroken(&v, r)
				if r.Err == nil {
					broken = fmt.Sprintf("%s: event %d is truncated, but the response is complete", v.Name, i+1)
				}
				try(broken)
			}
		})
	})
	c.rule("a stream that ends early is not a complete response", func(try func(string)) {
		c.streamVectors(func(v Vector, b *Binding, events []Event, whole Result) {
			if len(events) < 3 || whole.Cost.Reads < 3 {
				return
			}
			for _, stream := range []bool{false, true} {
				r := runWithEvents(v, b, events[:1], stream)
				broken := describeBroken(&v, r)
				if r.Err == nil {
					broken = v.Name + ": the response is complete after the first of " + fmt.Sprint(len(events)) + " events"
				}
				try(broken)
			}
		})
	})
	c.rule("events after the end do no harm", func(try func(string)) {
		c.streamVectors(func(v Vector, b *Binding, events []Event, _ Result) {
			try(describeBroken(&v, runWithEvents(v, b, append(slices.Clone(events), events...), false)))
		})
	})
	c.rule("a large event is read", func(try func(string)) {
		large := Event{Name: "x_sluice_unknown", Data: `{"type":"x_sluice_unknown","x_sluice":"` + strings.Repeat("x", 256<<10) + `"}`}
		n := 0
		c.streamVectors(func(v Vector, b *Binding, events []Event, whole Result) {
			if n++; n <= 3 {
				try(describeDifference(&v, whole, runWithEvents(v, b, slices.Insert(slices.Clone(events), len(events)-1, large), false)))
			}
		})
	})
	c.rule("any response is accepted, or rejected as the provider's failure", c.responses)
	c.rule("a rejected credential is not reported as the client's", c.statuses([]int{401}, func(status int) bool { return status != 401 && status != 403 }))
	c.rule("a rate limit is a 429", c.statuses([]int{429}, func(status int) bool { return status == 429 }))
	c.rule("a provider's failure is a 5xx", c.statuses([]int{500, 502, 503, 529}, func(status int) bool { return status >= 500 }))
	c.rule("any request is built, or rejected", c.requests)
	c.rule("any model list is read, or rejected", c.modelLists)
}

// describeDifference returns where the client's response differs, or "" if it does not.
func describeDifference(v *Vector, want, got Result) string {
	if broken := describeBroken(v, got); broken != "" {
		return broken
	}
	if text := Diff(want.Response, got.Response); text != "" {
		return v.Name + ":\n" + text
	}
	return ""
}

// sendingVectors calls f with up to two vectors for each combination of settings, form and options, for which the
// plugin sends a request upstream. The vectors have no response; f sets it.
func (c *scorer) sendingVectors(f func(v Vector, b *Binding)) {
	seen := make(map[string]int)
	c.vectors(func(v Vector, b *Binding) {
		v.Answers = nil
		v.Response = nil
		v.Headers, v.Truncated = nil, false
		way := string(v.Settings) + v.Form + string(v.Options)
		if seen[way] < 2 && v.Run(b, false).Request != "" {
			seen[way]++
			f(v, b)
		}
	})
}

func (c *scorer) responses(try func(string)) {
	c.sendingVectors(func(v Vector, b *Binding) {
		for _, body := range []string{"", "{}", "[]", "null", `"x"`, "not JSON", `{"x_sluice_unknown":1}`, `{"choices":[]}`, strings.Repeat("[", 200)} {
			for _, contentType := range []string{"application/json", "text/event-stream", "application/x-ndjson"} {
				v.Status, v.ContentType, v.Response = 200, contentType, []byte(body)
				if f := frameOf(contentType); f != nil {
					v.Response = []byte(f(Event{Data: body}))
				}
				for _, stream := range []bool{false, true} {
					broken := describeBroken(&v, v.Run(b, stream))
					if broken != "" {
						broken = fmt.Sprintf("%s, for %.40q as %s", broken, body, contentType)
					}
					try(broken)
				}
			}
		}
	})
}

// statuses returns a trial that checks the client's status for each of the provider's statuses.
func (c *scorer) statuses(statuses []int, right func(status int) bool) trial {
	return func(try func(string)) {
		c.sendingVectors(func(v Vector, b *Binding) {
			for _, status := range statuses {
				for _, body := range []string{"", "{}", "<html>", `{"error":{"message":"No.","code":"x"}}`, `{"message":"No."}`} {
					v.Status, v.ContentType, v.Response = status, "application/json", []byte(body)
					r := v.Run(b, false)
					c.mistakes.add(v.Name, r.Mistakes...)
					broken := describeBroken(&v, r)
					var got int
					fmt.Sscan(r.Response, &got)
					if broken == "" && !right(got) {
						broken = fmt.Sprintf("%s: the client receives %d for the provider's %d, with the body %q", v.Name, got, status, body)
					}
					try(broken)
				}
			}
		})
	}
}

func (c *scorer) requests(try func(string)) {
	b, err := c.used.bindFor(c.ctx, &Vector{})
	if err != nil {
		return
	}
	requests := map[string]string{
		"unknown members": `{"model":"m","messages":[{"role":"user","content":"hi","x_sluice":1}],"x_sluice_unknown":{"a":[1,null]}}`,
		"tools":           `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"c","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"any"}`,
		"parts":           `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"file","file":{"file_data":"AAAA"}},{"type":"video_url","video_url":{"url":"https://v.example/v"}}]}]}`,
		"escapes":         `{"model":"m","messages":[{"role":"system","content":"\u0000\ud83d\ude00\"\\/"},{"role":"user","content":"ü€𝄞"}],"stop":["\n"]}`,
		"all parameters":  `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":-1,"temperature":2,"top_p":0,"n":2,"seed":-1,"logprobs":true,"top_logprobs":1,"logit_bias":{"1":1},"stop":"x","user":"u","response_format":{"type":"x_sluice"},"reasoning_effort":"default","thinking":{"type":"enabled","budget_tokens":1024},"stream_options":{"include_usage":true}}`,
		"nothing to say":  `{"model":"m","messages":[{"role":"assistant","content":""}]}`,
		"long":            `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("The quick brown fox. ", 10<<10) + `"}]}`,
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		v := &Vector{Name: name, Target: "m", Request: []byte(requests[name])}
		if CheckRequest("", v.Request) != nil {
			continue
		}
		r := v.Run(b, false)
		broken := describeBroken(v, r)
		if broken == "" && r.Cost.Share > MaxShare {
			broken = name + ": " + budgetProblem(r.Cost.Share)
		}
		try(broken)
	}
}

func (c *scorer) modelLists(try func(string)) {
	b, err := c.used.bindFor(c.ctx, &Vector{})
	if err != nil {
		return
	}
	list, err := b.List("")
	if e, ok := errors.AsType[*plugin.CallError](err); ok {
		try(e.Error())
		return
	}
	if list.Path == "" {
		return
	}
	for _, status := range []int{200, 401, 500} {
		for _, body := range []string{"", "{}", "[]", "null", "not JSON", `{"data":[]}`, `{"data":[{"id":"m"}],"models":[{"name":"m"}]}`, `{"data":[null,1,{}],"models":[null]}`} {
			_, _, err := b.Models(status, nil, body)
			broken := ""
			if e, ok := errors.AsType[*plugin.CallError](err); ok {
				broken = fmt.Sprintf("status %d, %q: %v", status, body, e)
			}
			try(broken)
		}
	}
}

// router tests the rules of routers.
func (c *scorer) router() {
	b, err := c.used.bindFor(c.ctx, &Route{})
	if err != nil {
		return
	}
	document := func(targets ...string) []byte {
		for i, t := range targets {
			targets[i] = fmt.Sprintf(`{"index":%d,"provider":"p%d","model":"m","weight":1,"priority":0,"fallback":false,%s,"options":{}}`, i, i%2, t)
		}
		return fmt.Appendf(nil, `{"summary":{"request_id":"req_test","random":"9f86d081884c7d65","stream":false,"model":"m","target":"","flags":[],"body":100,"options":{}},"targets":[%s]}`, strings.Join(targets, ","))
	}
	healthy := `"healthy":true,"inflight":0,"latency_ms":100,"error_rate":0,"input_price":1,"output_price":2`
	failing := `"healthy":false,"inflight":9,"latency_ms":0,"error_rate":1,"input_price":0,"output_price":0`
	c.rule("targets are ordered, whatever they are", func(try func(string)) {
		for name, targets := range map[string][]string{
			"one target": {healthy}, "two targets": {healthy, healthy}, "one fails": {failing, healthy}, "all fail": {failing, failing, failing},
			"a hundred targets": slices.Repeat([]string{healthy}, 100),
		} {
			n := len(targets)
			order, _, err := b.Choose(document(slices.Clone(targets)...), n)
			broken := ""
			if e, ok := errors.AsType[*plugin.CallError](err); ok {
				broken = name + ": " + e.Error()
			} else if err == nil && len(order) == 0 {
				broken = name + ": no target"
			}
			try(broken)
		}
	})
	c.rule("unknown members are ignored", func(try func(string)) {
		for _, one := range c.suite.cases {
			r, ok := one.(*Route)
			if !ok {
				continue
			}
			bound, err := c.used.bindFor(c.ctx, r)
			if err != nil {
				continue
			}
			more := *r
			more.Input = bytes.ReplaceAll(r.Input, []byte("{"), []byte(`{"x_sluice_unknown":[1],`))
			more.Input = bytes.ReplaceAll(more.Input, []byte(",}"), []byte("}"))
			want := r.outcome(bound).text
			got := more.outcome(bound).text
			try(prefixName(r.Name, Diff(want, got)))
		}
	})
}

// prefixName puts a name before a description of what is broken, unless that is empty.
func prefixName(name, broken string) string {
	if broken == "" {
		return ""
	}
	return name + ":\n" + broken
}

// filter tests the rules of filters.
func (c *scorer) filter() {
	c.rule("a text has the same result however it is split", c.vectorFailures("text ", nil))
	b, err := c.used.bindFor(c.ctx, &FilteredText{})
	if err != nil {
		return
	}
	text := func(input plugin.Text) (plugin.Filtered, error) {
		return b.binding.FilterText(c.ctx, &plugin.Filtering{Tenant: "plugindev"}, &input)
	}
	c.rule("any text is passed, changed or rejected", func(try func(string)) {
		for _, s := range []string{"", " ", "x", "ü€𝄞", "\x00\n", strings.Repeat("The quick brown fox. ", 5000), strings.Repeat("x", 100_000), strings.Repeat("0", 5000)} {
			for what := range 14 {
				input := plugin.Text{What: abi.What(what), Flags: abi.TextComplete, New: []byte(s)}
				if input.What >= abi.WhatSystem {
					input.Flags |= abi.TextOfRequest
				}
				_, err := text(input)
				broken := ""
				if e, ok := errors.AsType[*plugin.CallError](err); ok {
					broken = fmt.Sprintf("%.40q: %v", s, e)
				}
				try(broken)
			}
		}
	})
	c.rule("text of an unknown kind does not stop a filter", func(try func(string)) {
		_, err := text(plugin.Text{What: 7, Flags: abi.TextStreamed, New: []byte("hello")})
		broken := ""
		if e, ok := errors.AsType[*plugin.CallError](err); ok {
			broken = e.Error()
		}
		try(broken)
	})
	c.rule("unknown members of the request's description are ignored", func(try func(string)) {
		err := b.binding.FilterRequest(c.ctx, &plugin.Filtering{}, []byte(`{"x_sluice_unknown":1,"summary":{"x_sluice_unknown":[1],"model":"m","key":"k","body":10,"flags":["x_sluice"]}}`))
		broken := ""
		if e, ok := errors.AsType[*plugin.CallError](err); ok {
			broken = e.Error()
		}
		try(broken)
	})
}
