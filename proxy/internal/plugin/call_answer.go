package plugin

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"errors"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// event begins an event of a choice with n bytes of text.
func (c *call) event(imp int, choice int32, n int) bool {
	if !c.enter(imp) {
		return false
	}
	if choice < 0 || choice >= abi.MaxChoices {
		c.stop(KindProtocol, "a choice outside of the contract")
		return false
	}
	return c.emit(n + entryCost)
}

// encoded checks an encoding's number. The text itself is checked once, where it enters the answer.
func (c *call) encoded(e abi.Encoding) bool {
	if e&^(abi.EncodingMask|abi.EncodingDefault) != 0 || e&abi.EncodingMask > abi.EncodingJSON {
		c.stop(KindProtocol, "unknown encoding")
		return false
	}
	return true
}

// Start implements abi.Host.
func (c *call) Start(id, model, reasoningFormat []byte) {
	if !c.enter(importStart) || !c.emit(len(id)+len(model)+len(reasoningFormat)+entryCost) {
		return
	}
	if c.name(id, "the id") && c.name(model, "the model") && c.name(reasoningFormat, "the reasoning format") {
		c.batch.Start(id, model, reasoningFormat)
	}
}

// Text implements abi.Host.
func (c *call) Text(choice int32, e abi.Encoding, s []byte) {
	if c.event(importText, choice, len(s)) && c.encoded(e) {
		c.batch.Text(choice, e, s)
	}
}

// Refusal implements abi.Host.
func (c *call) Refusal(choice int32, e abi.Encoding, s []byte) {
	if c.event(importRefusal, choice, len(s)) && c.encoded(e) {
		c.batch.Refusal(choice, e, s)
	}
}

// Reasoning implements abi.Host.
func (c *call) Reasoning(choice int32, part abi.ReasoningPart, key int32, e abi.Encoding, s []byte) {
	if !c.event(importReasoning, choice, len(s)) || !c.encoded(e) {
		return
	}
	if part < 0 || part >= abi.ReasoningParts {
		c.stop(KindProtocol, "unknown part of reasoning")
		return
	}
	c.batch.Reasoning(choice, part, key, e, s)
}

// ToolCall implements abi.Host.
func (c *call) ToolCall(choice, key int32, id, name []byte) {
	if !c.event(importToolCall, choice, len(id)+len(name)) || !c.name(id, "the id") || !c.name(name, "the tool's name") {
		return
	}
	c.tools = append(c.tools, toolKey{choice, key})
	c.batch.ToolCall(choice, key, id, name)
}

// hasTool reports whether a tool call is open in the answer or in what this call has said.
func (c *call) hasTool(choice, key int32) bool {
	for i := len(c.tools) - 1; i >= 0; i-- {
		if c.tools[i] == (toolKey{choice, key}) {
			return true
		}
	}
	return c.attempt.Writer.HasTool(choice, key)
}

// ToolArguments implements abi.Host.
func (c *call) ToolArguments(choice, key int32, e abi.Encoding, s []byte) abi.Status {
	if !c.event(importToolArguments, choice, len(s)) || !c.encoded(e) {
		return abi.StatusRefused
	}
	if !c.hasTool(choice, key) {
		return abi.StatusAbsent
	}
	c.batch.ToolArguments(choice, key, e, s)
	return abi.StatusOK
}

// ToolEnd implements abi.Host.
func (c *call) ToolEnd(choice, key int32) {
	if c.event(importToolEnd, choice, 0) {
		c.batch.ToolEnd(choice, key)
	}
}

// Extra implements abi.Host. The member is checked as the writer will check it, so that the plugin learns at once whether it
// is accepted.
func (c *call) Extra(scope abi.Scope, choice, key int32, member, json []byte) abi.Status {
	if scope == abi.ScopeAnswer || scope == abi.ScopeUsage {
		choice = 0
	}
	if !c.event(importExtra, choice, len(member)+len(json)) {
		return abi.StatusRefused
	}
	switch {
	case scope < 0 || scope >= abi.Scopes:
		return abi.StatusUnknown
	case len(member) > abi.MaxName:
		return abi.StatusTooLarge
	case !c.name(member, "the member's name"):
		return abi.StatusRefused
	}
	var err error
	if c.extra, err = response.AppendExtra(response.Reuse(c.extra), scope, member, json); err != nil {
		return abi.StatusRefused
	}
	c.batch.Extra(scope, choice, key, member, json)
	return abi.StatusOK
}

// TextLength implements abi.Host.
func (c *call) TextLength(choice int32) int64 {
	if !c.event(importTextLength, choice, 0) {
		return 0
	}
	return c.attempt.Writer.TextLength(choice) + c.texts.pending(&c.batch, choice)
}

// Usage implements abi.Host.
func (c *call) Usage(kind abi.UsageKind, value int64) {
	if !c.enter(importUsage) || !c.emit(entryCost) {
		return
	}
	switch {
	case kind < 0 || kind >= abi.UsageKinds:
		c.stop(KindProtocol, "unknown kind of usage")
	case value < 0 || value > maxTokens:
		c.stop(KindProtocol, "a token count outside of the contract")
	default:
		c.batch.Usage(kind, value)
	}
}

// maxTokens bounds a token count, so that sums stay exact in every reader of JSON.
const maxTokens = 1 << 48

// Finish implements abi.Host.
func (c *call) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if !c.event(importFinish, choice, len(native)) {
		return
	}
	if reason < 0 || reason >= abi.FinishReasons {
		c.stop(KindProtocol, "unknown finish reason")
		return
	}
	if native = c.redact(native); c.name(native, "the provider's reason") {
		c.batch.Finish(choice, reason, native)
	}
}

// Done implements abi.Host.
func (c *call) Done(more int32) {
	if !c.enter(importDone) || !c.emit(entryCost) {
		return
	}
	switch more {
	case abi.DoneNow:
		c.done = true
	case abi.DoneAtEnd:
	default:
		c.stop(KindProtocol, "neither 0 nor 1")
		return
	}
	c.batch.Done(more)
}

// Model implements abi.Host.
func (c *call) Model(json []byte) {
	const most = 10_000
	if !c.enter(importModel) || !c.emit(len(json)+entryCost) {
		return
	}
	if len(c.models) >= most {
		c.stop(KindOutput, "too many models on a page")
		return
	}
	m, err := compactObject(json)
	if err != nil {
		c.stop(KindProtocol, "not a JSON object")
		return
	}
	c.models = append(c.models, m)
}

// More implements abi.Host.
func (c *call) More(cursor []byte) {
	const longest = 4 << 10
	if !c.enter(importMore) || !c.emit(len(cursor)) {
		return
	}
	if len(cursor) > longest || !utf8.Valid(cursor) {
		c.stop(KindProtocol, "a cursor that is too long or not UTF-8")
		return
	}
	c.next = append(c.next[:0], cursor...)
}

// Candidate implements abi.Host.
func (c *call) Candidate(index int32) {
	if !c.enter(importCandidate) {
		return
	}
	if index < 0 || int(index) >= c.candidates {
		c.stop(KindProtocol, "there is no such target")
		return
	}
	for _, i := range c.order {
		if i == int(index) {
			c.stop(KindProtocol, "a target twice")
			return
		}
	}
	c.order = append(c.order, int(index))
}

// Explain implements abi.Host. The last text counts.
func (c *call) Explain(text []byte) {
	if c.enter(importExplain) {
		c.explain = append(c.explain[:0], c.words(text, abi.MaxLogLine)...)
	}
}

// compactObject returns a copy of a JSON object without the white space.
func compactObject(json []byte) ([]byte, error) {
	object, err := jsondoc.AppendCompact(make([]byte, 0, len(json)), json)
	if err == nil && object[0] != '{' {
		err = errNoObject
	}
	return object, err
}

var errNoObject = errors.New("not a JSON object")

// apply gives the events to the attempt's writer. A response that has grown too large is the provider's failure, not the
// plugin's.
func (c *call) apply() error {
	err := c.attempt.Writer.Apply(&c.batch)
	if err == nil {
		return nil
	}
	var large *apierror.Error // below the return: it moves to the heap
	if errors.As(err, &large) {
		return large
	}
	return c.protocol(err)
}

// keep commits what every call of an attempt may leave.
func (c *call) keep() {
	if c.stateOn {
		c.attempt.state = append(c.attempt.state[:0], c.state...)
	}
	c.attempt.reader.dirty = false
	c.attempt.Unknown += len(c.unknown)
	c.plugin.noteUnknown(c.binding, c.unknown)
}

// commitAnswer puts what a call of the answer phases said into the attempt.
func (c *call) commitAnswer() error {
	if err := c.apply(); err != nil {
		return err
	}
	c.keep()
	if c.failure != nil {
		return c.failure
	}
	return nil
}

// commitModels puts what provider_models said into the result.
func (c *call) commitModels() error {
	c.plugin.noteUnknown(c.binding, c.unknown)
	if c.failure != nil {
		return c.failure
	}
	c.result.page = Page{Models: c.models, Next: string(c.next)}
	return nil
}

// commitChoose puts what router_choose said into the result.
func (c *call) commitChoose() error {
	if c.failure != nil {
		return c.failure
	}
	c.result.order = append([]int(nil), c.order...)
	c.result.explain = string(c.explain)
	return nil
}

// protocol is the failure of a call that returned 0 and still cannot be used.
func (c *call) protocol(err error) *CallError { return &CallError{Kind: KindProtocol, Err: err} }
