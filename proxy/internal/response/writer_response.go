package response

import (
	"strconv"
)

// AppendResponse appends the whole answer, a chat.completion object. It may be called when the answer of a Machine that
// does not stream is complete.
func (m *Writer) AppendResponse(dst []byte) []byte {
	dst = append(append(dst, `{"id":"`...), m.id...)
	dst = append(dst, `","object":"chat.completion","created":`...)
	dst = strconv.AppendInt(dst, m.o.Created, 10)
	dst = append(append(append(dst, `,"model":"`...), m.model...), `","choices":[`...)
	first := true
	for _, c := range m.choices {
		if !c.seen {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = m.appendChoice(dst, c)
	}
	dst = append(dst, `],"usage":`...)
	dst = m.appendUsage(dst)
	dst = m.once.appendTo(dst)
	return append(dst, '}')
}

func (m *Writer) appendChoice(dst []byte, c *choice) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if len(c.content.all) == 0 && (c.opened > 0 || len(c.refusal.all) > 0 || c.messageX.get([]byte("audio")) != nil) {
		dst = append(dst, "null"...)
	} else {
		dst = append(append(append(dst, '"'), c.content.all...), '"')
	}
	if len(c.refusal.all) > 0 {
		dst = append(append(append(dst, `,"refusal":"`...), c.refusal.all...), '"')
	} else {
		dst = append(dst, `,"refusal":null`...)
	}
	if len(c.reasoning) > 0 {
		dst = append(append(append(dst, `,"reasoning_content":"`...), c.reasoning...), '"')
	}
	if len(c.details) > 0 {
		dst = append(dst, `,"reasoning_details":[`...)
		for i := range c.details {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = m.appendDetail(dst, c, &c.details[i])
		}
		dst = append(dst, ']')
	}
	if c.opened > 0 {
		dst = appendTools(dst, c)
	}
	dst = c.messageX.appendTo(dst)
	dst = append(dst, '}')
	if c.choiceX.get([]byte("logprobs")) == nil {
		dst = append(dst, `,"logprobs":null`...)
	}
	dst = c.choiceX.appendTo(dst)
	dst = appendFinish(dst, c)
	return append(dst, '}')
}

func (m *Writer) appendDetail(dst []byte, c *choice, d *detail) []byte {
	switch d.kind {
	case detailText:
		dst = append(append(dst, `{"type":"reasoning.text","text":"`...), d.text...)
		if len(d.signature) > 0 {
			dst = append(append(dst, `","signature":"`...), d.signature...)
		}
	case detailSummary:
		dst = append(append(dst, `{"type":"reasoning.summary","summary":"`...), d.text...)
	case detailEncrypted, detailToolEncrypted:
		dst = append(append(dst, `{"type":"reasoning.encrypted","data":"`...), d.text...)
	}
	dst = append(dst, '"')
	if d.kind == detailToolEncrypted {
		dst = appendToolID(dst, c, d.key)
	}
	return append(m.appendOrigin(dst, d.key), '}')
}

// appendTools appends the tool calls in the order in which they were opened.
func appendTools(dst []byte, c *choice) []byte {
	dst = append(dst, `,"tool_calls":[`...)
	for i := range c.tools {
		t := &c.tools[i]
		if !t.open {
			continue
		}
		if t.index > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"id":"`...), t.id...)
		dst = append(append(dst, `","type":"function","function":{"name":"`...), t.name...)
		dst = append(append(dst, `","arguments":"`...), t.args.all...)
		dst = append(dst, `"}`...)
		dst = t.extras.appendTo(dst)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
