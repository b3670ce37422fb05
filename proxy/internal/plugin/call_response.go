package plugin

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// beginEvent begins an import that emits an event of a choice with n bytes of text.
func (c *call) beginEvent(imp int, choice int32, n int) bool {
	if !c.beginImport(imp) {
		return false
	}
	if choice < 0 || choice >= abi.MaxChoices {
		c.abort(KindProtocol, "choice out of range")
		return false
	}
	return c.countOutput(n + entryCost)
}

// encodingMinor is the minor version of the ABI from which on an unknown encoding fails the call: without its texts, a
// response would be empty.
const encodingMinor = 7

// checkEncoding reports whether the encoding is known. Otherwise it fails the call or, for older plugins, records the
// number. The text itself is checked later, by the response writer.
func (c *call) checkEncoding(e abi.Encoding) bool {
	if e&^(abi.EncodingMask|abi.EncodingDefault) != 0 || e&abi.EncodingMask > abi.EncodingJSON {
		if c.plugin.minor >= encodingMinor {
			c.abort(KindProtocol, "unknown encoding")
			return false
		}
		c.ignore(int32(e))
		return false
	}
	return true
}

// Start implements abi.Host.
func (c *call) Start(id, model, reasoningFormat []byte) {
	if !c.beginImport(importStart) || !c.countOutput(len(id)+len(model)+len(reasoningFormat)+entryCost) {
		return
	}
	if c.checkName(id, "the id") && c.checkName(model, "the model") && c.checkName(reasoningFormat, "the reasoning format") {
		c.batch.Start(id, model, reasoningFormat)
	}
}

// Text implements abi.Host.
func (c *call) Text(choice int32, e abi.Encoding, s []byte) {
	if c.beginEvent(importText, choice, len(s)) && c.checkEncoding(e) {
		c.batch.Text(choice, e, s)
	}
}

// Refusal implements abi.Host.
func (c *call) Refusal(choice int32, e abi.Encoding, s []byte) {
	if c.beginEvent(importRefusal, choice, len(s)) && c.checkEncoding(e) {
		c.batch.Refusal(choice, e, s)
	}
}

// Reasoning implements abi.Host.
func (c *call) Reasoning(choice int32, part abi.ReasoningPart, key int32, e abi.Encoding, s []byte) {
	if !c.beginEvent(importReasoning, choice, len(s)) || !c.checkEncoding(e) {
		return
	}
	if part < 0 || part >= abi.ReasoningParts {
		c.ignore(int32(part))
		return
	}
	c.batch.Reasoning(choice, part, key, e, s)
}

// ToolCall implements abi.Host.
func (c *call) ToolCall(choice, key int32, id, name []byte) {
	if !c.beginEvent(importToolCall, choice, len(id)+len(name)) || !c.checkName(id, "the id") || !c.checkName(name, "the tool's name") {
		return
	}
	c.tools = append(c.tools, toolKey{choice, key})
	c.batch.ToolCall(choice, key, id, name)
}

// hasTool reports whether a tool call is open in the response or in this call's events, and charges for the search.
func (c *call) hasTool(choice, key int32) bool {
	c.chargeBytes(len(c.tools))
	for i := len(c.tools) - 1; i >= 0; i-- {
		if c.tools[i] == (toolKey{choice, key}) {
			return true
		}
	}
	return c.attempt.Writer.HasTool(choice, key)
}

// ToolArguments implements abi.Host.
func (c *call) ToolArguments(choice, key int32, e abi.Encoding, s []byte) abi.Status {
	if !c.beginEvent(importToolArguments, choice, len(s)) {
		return abi.StatusRefused
	}
	if !c.checkEncoding(e) {
		return abi.StatusUnknown
	}
	if !c.hasTool(choice, key) {
		return c.noteStatus(abi.StatusAbsent)
	}
	c.batch.ToolArguments(choice, key, e, s)
	return abi.StatusOK
}

// ToolEnd implements abi.Host.
func (c *call) ToolEnd(choice, key int32) {
	if c.beginEvent(importToolEnd, choice, 0) {
		c.batch.ToolEnd(choice, key)
	}
}

// Extra implements abi.Host. The member is checked in the same way as by the response writer, so that the plugin learns
// at once whether it is accepted.
func (c *call) Extra(scope abi.Scope, choice, key int32, member, json []byte) abi.Status {
	if scope == abi.ScopeAnswer || scope == abi.ScopeUsage {
		choice = 0
	}
	if !c.beginEvent(importExtra, choice, len(member)+len(json)) {
		return abi.StatusRefused
	}
	switch {
	case scope < 0 || scope >= abi.Scopes:
		return abi.StatusUnknown
	case len(member) > abi.MaxName:
		return c.noteStatus(abi.StatusTooLarge)
	case !c.checkName(member, "the member's name"):
		return abi.StatusRefused
	}
	var err error
	if c.extra, err = response.AppendExtra(response.Reuse(c.extra), scope, member, json); err != nil {
		return c.noteStatus(abi.StatusRefused)
	}
	c.batch.Extra(scope, choice, key, member, json)
	return abi.StatusOK
}

// TextLength implements abi.Host.
func (c *call) TextLength(choice int32) int64 {
	if !c.beginEvent(importTextLength, choice, 0) {
		return 0
	}
	return c.attempt.Writer.TextLength(choice) + c.texts.pending(&c.batch, choice)
}

// Usage implements abi.Host.
func (c *call) Usage(kind abi.UsageKind, value int64) {
	if !c.beginImport(importUsage) || !c.countOutput(entryCost) {
		return
	}
	switch {
	case kind < 0 || kind >= abi.UsageKinds:
		c.ignore(int32(kind))
	case value < 0 || value > maxTokens:
		c.abort(KindProtocol, "token count out of range")
	default:
		c.batch.Usage(kind, value)
	}
}

// maxTokens limits a token count, so that sums of counts stay exact in JSON readers that use floating-point numbers.
const maxTokens = 1 << 48

// Finish implements abi.Host.
func (c *call) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if !c.beginEvent(importFinish, choice, len(native)) {
		return
	}
	if reason < 0 || reason >= abi.FinishReasons {
		c.ignore(int32(reason))
		return
	}
	if native = c.redactBeginning(native, abi.MaxName+1); c.checkName(native, "the provider's reason") {
		c.batch.Finish(choice, reason, native)
	}
}

// Done implements abi.Host.
func (c *call) Done(more int32) {
	if !c.beginImport(importDone) || !c.countOutput(entryCost) {
		return
	}
	switch more {
	case abi.DoneNow:
		c.done = true
	case abi.DoneAtEnd:
	default:
		c.ignore(more)
		return
	}
	c.batch.Done(more)
}

// Embedding implements abi.Host. The numbers are checked later, by the response writer.
func (c *call) Embedding(index int32, numbers []byte) {
	if c.beginItem(importEmbedding, index, numbers) {
		c.batch.Embedding(index, numbers)
	}
}

// Rank implements abi.Host.
func (c *call) Rank(index int32, score []byte) {
	if c.beginItem(importRank, index, score) {
		c.batch.Rank(index, score)
	}
}

// beginItem begins an import that emits a vector or a rank. Empty values are refused, because the batch uses them for
// items that the host reads natively.
func (c *call) beginItem(imp int, index int32, json []byte) bool {
	if !c.beginImport(imp) || !c.countOutput(len(json)+entryCost) {
		return false
	}
	switch {
	case index < 0:
		c.abort(KindProtocol, "index out of range")
	case len(json) == 0:
		c.abort(KindProtocol, "no value")
	default:
		return true
	}
	return false
}

// Model implements abi.Host.
func (c *call) Model(json []byte) {
	const maxModels = 10_000
	if !c.beginImport(importModel) || !c.countOutput(len(json)+entryCost) {
		return
	}
	if len(c.models) >= maxModels {
		c.abort(KindOutput, "too many models on a page")
		return
	}
	m, err := compactObject(json)
	if err != nil {
		c.abort(KindProtocol, "not a JSON object")
		return
	}
	c.models = append(c.models, m)
}

// More implements abi.Host.
func (c *call) More(cursor []byte) {
	const maxCursor = 4 << 10
	if !c.beginImport(importMore) || !c.countOutput(len(cursor)) {
		return
	}
	if len(cursor) > maxCursor || !utf8.Valid(cursor) {
		c.abort(KindProtocol, "cursor is too long or not UTF-8")
		return
	}
	c.next = append(c.next[:0], cursor...)
}

// Candidate implements abi.Host.
func (c *call) Candidate(index int32) {
	if !c.beginImport(importCandidate) {
		return
	}
	if index < 0 || int(index) >= c.candidates {
		c.abort(KindProtocol, "no such target")
		return
	}
	for _, i := range c.order {
		if i == int(index) {
			c.abort(KindProtocol, "target named twice")
			return
		}
	}
	c.order = append(c.order, int(index))
}

// Explain implements abi.Host. The last text is used.
func (c *call) Explain(text []byte) {
	if c.beginImport(importExplain) {
		c.explain = append(c.explain[:0], c.sanitize(text, abi.MaxLogLine)...)
	}
}

// compactObject returns a copy of a JSON object without white space.
func compactObject(json []byte) ([]byte, error) {
	object, err := jsondoc.AppendCompact(make([]byte, 0, len(json)), json)
	if err == nil && object[0] != '{' {
		err = errNoObject
	}
	return object, err
}

var errNoObject = errors.New("not a JSON object")

// applyBatch passes the call's events to the attempt's writer. A response that has grown too large is the provider's
// failure, any other error is the plugin's.
func (c *call) applyBatch() error {
	if c.done {
		c.dropAfterDone()
	}
	err := c.attempt.Writer.Apply(&c.batch)
	if err == nil {
		return nil
	}
	var large *apierror.Error // declared after the return, because it is allocated on the heap
	if errors.As(err, &large) {
		return large
	}
	return c.newProtocolError(err)
}

// largeInput is the size of a response, or of one of its events, above which running out of memory is not the plugin's
// fault.
const largeInput = framing.DefaultMaxEvent

// oversized returns the provider's error if the plugin has run out of memory because the response was too large. Such a
// failure does not count for the circuit breaker. It returns nil for every other failure.
func (inv *invocation) oversized(failed *CallError) error {
	n := len(inv.first) + len(inv.second)
	if failed.Kind != KindMemory || n <= largeInput || exports[inv.export].phase != abi.PhaseAnswer {
		return nil
	}
	e := apierror.Fail(abi.FailBadAnswer, "", "", "")
	e.Cause = fmt.Errorf("response of %d bytes is more than the plugin can read: %w", n, failed)
	return e
}

// commitState commits the state slot.
func (c *call) commitState() {
	if c.stateSet {
		c.attempt.state = append(c.attempt.state[:0], c.state...)
	}
	c.attempt.reader.dirty = false
}

// commitResponse commits a call of the response phases: its events and the state slot.
func (c *call) commitResponse() error {
	if err := c.applyBatch(); err != nil {
		return err
	}
	c.commitState()
	c.commitFollowUps()
	if c.failure != nil {
		return c.failure
	}
	return nil
}

// commitModels sets the result of provider_models.
func (c *call) commitModels() error {
	if c.failure != nil {
		return c.failure
	}
	c.result.page = Page{Models: c.models, Next: string(c.next)}
	return nil
}

// commitChoose sets the result of router_choose.
func (c *call) commitChoose() error {
	if c.failure != nil {
		return c.failure
	}
	c.result.order = append([]int(nil), c.order...)
	c.result.explain = string(c.explain)
	return nil
}

// newProtocolError returns the failure of a call that returned 0 with an invalid result.
func (c *call) newProtocolError(err error) *CallError {
	return &CallError{Kind: KindProtocol, Err: err}
}
