package openai

import "strconv"

func (r *Renderer) appendChoice(dst []byte, c *choiceState) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(c.content) == 0 && (len(c.tools) > 0 || len(c.refusal) > 0 || c.message.get([]byte("audio")) != nil) {
		dst = append(dst, "null"...)
	} else {
		dst = append(append(append(dst, '"'), c.content...), '"')
	}
	if len(c.refusal) > 0 {
		dst = append(append(append(dst, `,"refusal":"`...), c.refusal...), '"')
	} else {
		dst = append(dst, `,"refusal":null`...)
	}
	if len(c.reasoning) > 0 {
		dst = append(append(append(dst, `,"reasoning_content":"`...), c.reasoning...), '"')
	}
	if c.details.Len() > 0 {
		dst = c.details.AppendTo(append(dst, `,"reasoning_details":`...), 0, r.head.ReasoningFormat, c.callID)
	}
	switch {
	case len(c.tools) == 0:
	case r.head.FunctionCalls:
		t := &c.tools[0]
		dst = appendString(append(dst, `,"function_call":{`...), "name", t.name)
		dst = append(appendString(append(dst, ','), "arguments", t.args), '}')
	default:
		dst = appendTools(dst, c)
	}
	dst = c.message.appendTo(dst)
	dst = append(dst, '}')
	if c.choice.get([]byte("logprobs")) == nil {
		dst = append(dst, `,"logprobs":null`...)
	}
	dst = c.choice.appendTo(dst)
	dst = r.appendFinish(dst, c)
	return append(dst, '}')
}

// appendTools appends the tool calls in the order in which they started.
func appendTools(dst []byte, c *choiceState) []byte {
	dst = append(dst, `,"tool_calls":[`...)
	for i := range c.tools {
		t := &c.tools[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"id":"`...), t.id...)
		dst = append(append(dst, `","type":"function","function":{"name":"`...), t.name...)
		dst = append(append(dst, `","arguments":"`...), t.args...)
		dst = append(dst, `"}`...)
		dst = t.members.appendTo(dst)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
