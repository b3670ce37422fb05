package demo

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[demo]("demo") }

// demo is an instance of the plugin. Its fields are reused buffers; no data outlives a request.
type demo struct {
	conversation conversation
	thoughts     []byte
	text         []byte
	arguments    []byte // arguments of the tool call; nil for a text response
	document     generator
}

// format is the demo's reasoning format.
const format = "demo-v1"

// The keys of the blocks of a choice.
const (
	keyThoughts = 0
	keyTool     = 1
)

// maxChoices keeps a call within the output limit for a short request.
const maxChoices = 8

// Request emits the response to a request.
func (d *demo) Request(r *provider.Request) error {
	c := &d.conversation
	if err := c.read(r.Body()); err != nil {
		return err
	}
	if c.n > maxChoices {
		return sdk.Refuse("n", "The demo model supports at most 8 choices.")
	}
	if r.Has(sdk.FlagLogprobs) {
		r.Warn(abi.WarnDropped, "logprobs")
	}
	d.prepare()
	r.Start(nil, r.Target, format)
	var completion, reasoning int64
	for i := range int32(c.n) {
		all, thoughts := d.emitChoice(r, i)
		completion += all
		reasoning += thoughts
	}
	r.Usage(abi.UsagePrompt, int64(c.bytes+3)/4+3*int64(c.messages))
	r.Usage(abi.UsageCompletion, completion)
	if c.thinking {
		r.Usage(abi.UsageReasoning, reasoning)
	}
	r.Done()
	return nil
}

// emitChoice emits a choice. It returns the number of its tokens, and how many of them are reasoning.
func (d *demo) emitChoice(r *provider.Request, choice int32) (all, thoughts int64) {
	c := &d.conversation
	left := c.maxTokens
	if left == 0 {
		left = r.MaxTokens
	}
	if left == 0 {
		left = 1 << 20 // more than any response of the demo
	}
	limit := left
	if c.thinking {
		d.emitReasoning(r, choice, &left)
		thoughts = limit - left
	}
	reason := abi.FinishStop
	switch t := c.chosen; {
	case left == 0:
		reason = abi.FinishLength
	case t != nil:
		reason = d.emitToolCall(r, choice, t, &left)
	default:
		reason = d.emitText(r, choice, &left)
	}
	r.Finish(choice, reason, nil)
	return limit - left, thoughts
}

// prepare generates the reasoning, and the text or tool arguments, which are the same for all choices.
func (d *demo) prepare() {
	c := &d.conversation
	d.thoughts = appendThoughts(d.thoughts[:0], c)
	d.arguments = nil
	d.document.reset(c.n)
	t := c.chosen
	switch {
	case t != nil:
		d.document.writeObject(t.parameters, 0)
		d.arguments = d.document.Buf
		return
	case c.schema.Exists():
		d.document.writeValue(c.schema, 0)
		d.text = append(d.text[:0], d.document.Buf...)
	case c.jsonObject:
		reply := appendReply(nil, c)
		d.text = append(json.AppendString(append(d.text[:0], `{"answer":`...), reply), '}')
	default:
		d.text = appendReply(d.text[:0], c)
	}
	d.text = d.text[:firstStop(d.text, c)]
}

// emitReasoning emits as much of the reasoning as the remaining tokens and the thinking budget allow.
func (d *demo) emitReasoning(r *provider.Request, choice int32, left *int64) {
	budget := *left
	if b := d.conversation.budget; b > 0 {
		budget = min(budget, b)
	}
	for text := d.thoughts; len(text) > 0 && budget > 0; budget-- {
		n := tokenLength(text)
		r.Reasoning(choice, abi.ReasoningText, keyThoughts, abi.EncodingUTF8, text[:n])
		text = text[n:]
		*left--
	}
}

// emitText emits the text, which is a JSON document if the client requests one.
func (d *demo) emitText(r *provider.Request, choice int32, left *int64) abi.FinishReason {
	for text := d.text; len(text) > 0; *left-- {
		if *left == 0 {
			return abi.FinishLength
		}
		n := tokenLength(text)
		r.Text(choice, abi.EncodingUTF8, text[:n])
		text = text[n:]
	}
	return abi.FinishStop
}

// emitToolCall emits a tool call.
func (d *demo) emitToolCall(r *provider.Request, choice int32, t *tool, left *int64) abi.FinishReason {
	r.ToolCall(choice, keyTool, nil, t.name)
	for text := d.arguments; len(text) > 0; *left-- {
		if *left == 0 {
			return abi.FinishLength
		}
		n := tokenLength(text)
		r.ToolArguments(choice, keyTool, abi.EncodingUTF8, text[:n])
		text = text[n:]
	}
	r.ToolEnd(choice, keyTool)
	return abi.FinishToolCalls
}
