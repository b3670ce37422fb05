package demo

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// conversation contains the parts of a request that determine the response. Its slices share the memory of the client's
// body, except for strings that had to be unescaped.
type conversation struct {
	messages  int    // number of messages
	bytes     int    // length of the content of all messages
	user      []byte // last text of the last user message: agents put the prompt after reminders of their own
	hasResult bool   // the last message is a tool result
	result    []byte // text of that result

	tools  []tool
	choice json.Value // tool_choice
	chosen *tool      // tool to call; nil for a text response

	n          int64
	maxTokens  int64 // 0 if unset
	stop       json.Value
	thinking   bool
	budget     int64 // thinking tokens, 0 if unset
	jsonObject bool
	schema     json.Value // schema of response_format
}

type tool struct {
	name       []byte
	parameters json.Value
}

func (c *conversation) read(body []byte) error {
	*c = conversation{tools: c.tools[:0], n: 1}
	var (
		r           json.Reader
		maxTokens   int64 // max_tokens, which max_completion_tokens overrides
		effort      []byte
		hasThinking bool
	)
	r.Reset(body)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "messages":
			for a := r.Array(); a.Next(); {
				c.readMessage(&r)
			}
		case "tools":
			for a := r.Array(); a.Next(); {
				c.readTool(&r)
			}
		case "tool_choice":
			c.choice = r.Raw()
		case "n":
			if n, ok := r.Int(); ok && n > 0 {
				c.n = n
			}
		case "max_tokens":
			maxTokens, _ = r.Int()
		case "max_completion_tokens":
			c.maxTokens, _ = r.Int()
		case "stop":
			c.stop = r.Raw()
		case "thinking":
			hasThinking = r.Kind() == json.Object
			c.readThinking(&r)
		case "reasoning_effort":
			effort = r.Inside()
		case "response_format":
			c.readFormat(&r)
		}
	}
	if c.maxTokens <= 0 {
		c.maxTokens = max(maxTokens, 0) // -1 means unlimited
	}
	if !hasThinking {
		c.thinking = len(effort) > 0 && string(effort) != "none" && string(effort) != "default"
	}
	c.chosen = c.chooseTool()
	return r.End()
}

func (c *conversation) readMessage(r *json.Reader) {
	var role, text []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "role":
			role = r.Inside()
		case "content":
			text = c.readContent(r)
		}
	}
	c.messages++
	c.result, c.hasResult = nil, false
	switch string(role) {
	case "user":
		c.user = text
	case "tool":
		c.result, c.hasResult = text, true
	}
}

// readContent returns the last text of a message's content.
func (c *conversation) readContent(r *json.Reader) (text []byte) {
	if r.Kind() != json.Array {
		text = r.Text()
		c.bytes += len(text)
		return text
	}
	for a := r.Array(); a.Next(); {
		for o := r.Object(); o.Next(); {
			if string(r.Name()) == "text" {
				text = r.Text()
				c.bytes += len(text)
			}
		}
	}
	return text
}

func (c *conversation) readTool(r *json.Reader) {
	var t tool
	for o := r.Object(); o.Next(); {
		if string(r.Name()) != "function" {
			continue
		}
		for o := r.Object(); o.Next(); {
			switch string(r.Name()) {
			case "name":
				t.name = r.Text()
			case "parameters":
				t.parameters = r.Raw()
			}
		}
	}
	if len(t.name) > 0 {
		c.tools = append(c.tools, t)
	}
}

func (c *conversation) readThinking(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			c.thinking = string(r.Inside()) != "disabled"
		case "budget_tokens":
			c.budget, _ = r.Int()
		}
	}
}

func (c *conversation) readFormat(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			c.jsonObject = string(r.Inside()) == "json_object"
		case "json_schema":
			c.schema = json.Value(r.Raw()).Get("schema")
		}
	}
}

// chooseTool returns the tool to call, nil for a text response. A tool is only called if the request demands one: most
// agents offer tools with every request, and run what is called. The response to a tool result is always text, so that
// a client's tool loop ends.
func (c *conversation) chooseTool() *tool {
	if len(c.tools) == 0 || c.hasResult || c.choice.Is("none") {
		return nil
	}
	allowed := c.choice.Get("allowed_tools")
	required := c.choice.Is("required") || allowed.Get("mode").Is("required")
	name := c.choice.Get("function").Get("name").Text()
	if len(name) == 0 {
		name = c.requestedTool()
	}
	if len(name) == 0 && required {
		name = first(allowed.Get("tools")).Get("function").Get("name").Text()
	}
	for i := range c.tools {
		if len(name) > 0 && string(c.tools[i].name) == string(name) {
			return &c.tools[i]
		}
	}
	if required {
		return &c.tools[0]
	}
	return nil
}

// requestedTool returns the name of the tool for which the user asks: "call NAME", in which the name may be quoted.
func (c *conversation) requestedTool() []byte {
	const end = "all " // of "call " and "Call "
	for text := c.user; ; {
		at := bytes.Index(text, []byte(end))
		if at < 0 {
			return nil
		}
		isCall := at > 0 && text[at-1]|0x20 == 'c' && (at == 1 || !isNameByte(text[at-2]))
		if text = text[at+len(end):]; !isCall {
			continue
		}
		name := bytes.TrimLeft(text, "\"'`")
		for i := range c.tools {
			if n := len(c.tools[i].name); bytes.HasPrefix(name, c.tools[i].name) && (len(name) == n || !isNameByte(name[n])) {
				return name[:n]
			}
		}
	}
}

// isNameByte reports whether a byte may be a part of a tool's name.
func isNameByte(b byte) bool {
	return b == '_' || b == '-' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// eachStop calls f for each stop sequence.
func (c *conversation) eachStop(f func(sequence []byte)) {
	if c.stop.Kind() != json.Array {
		f(c.stop.Text())
		return
	}
	var r json.Reader
	r.Reset(c.stop)
	for a := r.Array(); a.Next(); {
		f(r.Text())
	}
}
