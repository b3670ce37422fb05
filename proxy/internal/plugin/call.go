package plugin

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// invocation is the input of one call of a guest. Its byte slices belong to the caller and outlive the call.
type invocation struct {
	export  export
	binding *Binding
	number  int32         // HTTP status, abi.EventKind or abi.What, depending on the export
	first   []byte        // name of an event, or the held part of a text; otherwise the whole input
	second  []byte        // data of an event, or the new part of a text
	choice  int32         // choice that a text belongs to
	flags   abi.TextFlags // of a text

	attempt    *Attempt                 // set in the request and response phases
	header     func(name []byte) []byte // response headers, in the response and models phases; may be nil
	candidates int                      // number of targets, in the router phase
	result     *result                  // output of the list, models and router phases
	ticket     *ticket                  // the attempt's ticket of the circuit breaker; nil for model lists
	begins     bool                     // this is the first call of an attempt, in addition to exportInfo.begins
	filtering  *Filtering               // set in the filter and text phases
}

// result is the output of a call without an Attempt.
type result struct {
	out     OutRequest
	page    Page
	order   []int
	explain string
	ticket  ticket
}

// call is the host's side of one call of a guest. It implements abi.Host, whose methods are the imports. A native guest
// calls them directly, a Wasm guest through the table in imports.go.
//
// It collects the guest's output. commit applies that to the Attempt, and runs only if the call has returned 0 without
// an error. The first error is recorded in err. It stops a guest in WebAssembly at once. For a native guest it makes
// all later imports do nothing, and takes precedence over the call's status. No behaviour of a guest makes the host
// panic.
//
// A call belongs to its instance and is reused for the instance's next call.
type call struct {
	invocation
	plugin  *Plugin
	meter   meter // nil for a native guest
	phase   abi.Phase
	running int // index in abi.Imports of the running import, or -1
	err     *CallError

	output, limit int64     // bytes of output so far, and their maximum
	refusals      importSet // whose last status was not 0; see noteStatus

	responseOutput
	requestOutput
	filterOutput
	choices

	extra   []byte // scratch: an extra member, or a decoded string
	summary []byte // scratch: Attempt.Summary as JSON
	input   inputDoc

	// Kept between calls, because requests mostly repeat them.
	known       interned
	lastOptions []byte         // options of the import answer, as passed last
	lastRead    native.Options // lastOptions, parsed

	out      guestOutput
	trace    callTrace
	recorder importRecorder // of a request that is not replayed
}

// responseOutput is the output of a call that interprets a provider's response.
type responseOutput struct {
	batch    response.Batch
	failure  *apierror.Error // from fail
	done     bool            // done(0) was called
	state    []byte
	stateSet bool      // state_set was called
	follow   followUp  // from next_request
	cancel   followUp  // from cancel_request
	tools    []toolKey // tool calls opened in this call
	texts    textCount
	unknown  []string // elements of the provider's response that the plugin has reported as unknown
	ignored  []string // numbers used by the plugin that this host does not know
}

// requestOutput is the output of a call that builds a request, or one for a list of models.
type requestOutput struct {
	edits         jsondoc.Edits
	path          []byte
	refused       refusal // the last refused path or tag
	refusedHeader refusal
	refusedAnswer error
	headers       []Header
	own           []byte // body written by the plugin
	writesBody    bool   // the plugin writes the body instead of editing the client's
	parts         []partStart
	copied        int64 // bytes copied by request_copy
	aliases       []alias
	answerSet     bool // answer was called
	framing       abi.Framing
	eventsAreJSON bool
	dialect       abi.Dialect
	options       native.Options
	warnings      []Warning
}

// filterOutput is the output of a call of a filter.
type filterOutput struct {
	filterRefused   filterRefusal
	tags            uint64 // bits of Filtering.Tags
	replaced        []replacement
	hold            int
	replacementText []byte // texts of replacements, concatenated
}

// choices are the output of a call that lists models, and of a router.
type choices struct {
	models  [][]byte
	next    []byte // cursor of the next page
	order   []int
	explain []byte
}

type (
	toolKey struct{ choice, key int32 }
	alias   struct{ alias, name []byte }
)

// meter charges fuel; *engine.Instance implements it.
type meter interface {
	Charge(units int64)
}

var _ abi.Host = (*call)(nil)

// entryCost is added to the output, in bytes, for each event and list entry, so that empty ones are limited, too.
const entryCost = 32

// begin prepares for one call.
//
// The limit of output is abi.MaxOutputFactor times the input plus abi.MaxOutputBase. For provider_request the input is
// the summary and the client's body, read or not, so that the plugin can write the client's body in another format. The
// events of a plugin that responds itself have the same limit. Ranges copied by request_copy do not count, because they
// never pass through the guest; see maxCopies.
func (c *call) begin(inv *invocation) {
	c.invocation = *inv
	c.phase = exports[inv.export].phase
	c.err, c.failure, c.running = nil, nil, -1
	c.refused.reason, c.refusedHeader.reason, c.filterRefused.refused = nil, nil, false
	c.output, c.refusals = 0, 0
	c.done, c.stateSet, c.follow, c.cancel = false, false, followUp{}, followUp{}
	c.tools, c.unknown, c.ignored = c.tools[:0], c.unknown[:0], c.ignored[:0]
	c.input.reset()
	c.batch.Reset()
	c.texts.reset()
	c.out.reset(c.plugin.log.enabled())
	switch inv.export {
	case exportRequest:
		c.summary = c.appendSummary(c.summary[:0])
		c.first = c.summary
		c.edits.Reset(inv.attempt.Request.Doc)
		c.path = c.path[:0]
		c.headers, c.aliases, c.warnings = c.headers[:0], c.aliases[:0], c.warnings[:0]
		if c.own = inv.attempt.own[:0]; c.own == nil {
			c.own = borrowBody()
		}
		c.writesBody, c.copied, c.parts = false, 0, c.parts[:0]
		c.answerSet, c.framing, c.eventsAreJSON, c.dialect, c.options = false, 0, false, 0, native.Options{}
	case exportList:
		c.path, c.headers = c.path[:0], c.headers[:0]
	case exportModels:
		c.models, c.next = nil, nil
	case exportChoose:
		c.order, c.explain = c.order[:0], nil
	case exportFilterRequest, exportFilterText:
		c.tags, c.replaced, c.hold, c.replacementText = 0, c.replaced[:0], 0, response.Reuse(c.replacementText)
	}
	c.limit = abi.MaxOutputFactor*int64(c.inputSize()) + abi.MaxOutputBase
}

// inputSize returns the size of the call's input in bytes, for provider_request including the client's body.
func (c *call) inputSize() int {
	n := len(c.first) + len(c.second)
	if c.export == exportRequest {
		n += len(c.attempt.Request.Body)
	}
	return n
}

// commit applies the call's output. It is called once, after status 0.
func (c *call) commit() error {
	c.noteUnknown()
	switch c.export {
	case exportRequest:
		return c.commitRequest()
	case exportResponse, exportEvent, exportEnd:
		return c.commitResponse()
	case exportList:
		return c.commitList()
	case exportModels:
		return c.commitModels()
	case exportChoose:
		return c.commitChoose()
	case exportFilterRequest, exportFilterText:
		return c.commitFilter()
	}
	return nil
}

// end drops all references to memory that belongs to the caller.
func (c *call) end() {
	if c.attempt != nil && c.export == exportRequest {
		c.edits.Reset(nil)
		c.attempt.own = c.own[:0]
		c.own = nil
	}
	clear(c.headers)
	clear(c.aliases)
	clear(c.unknown)
	clear(c.ignored)
	c.input.reset()
	c.invocation = invocation{}
	c.phase = 0
}

// abort records an error, which ends the call, unless one was recorded before. reason must not contain text from the
// guest.
func (c *call) abort(kind CallErrorKind, reason string) {
	if c.err != nil {
		return
	}
	if c.running >= 0 {
		reason = abi.Imports[c.running].Name + ": " + reason
	}
	c.err = &CallError{Kind: kind, Reason: reason}
}

// importPanicked records a panic of the gateway in an import as the call's error.
func (c *call) importPanicked(p *rescue.Error) {
	e := c.plugin.panicked(c.export, p)
	if c.running >= 0 {
		e.Reason = abi.Imports[c.running].Name
	}
	c.err = e
}

// beginImport is called first by every import. It returns false if the import must do nothing, because the call has
// failed or its phase does not allow the import.
func (c *call) beginImport(imp int) bool {
	if c.err != nil {
		return false
	}
	c.running = imp
	if abi.Imports[imp].Phases&c.phase == 0 {
		c.abort(KindProtocol, "not allowed in this call, only in "+callsOf(abi.Imports[imp].Phases))
		return false
	}
	return true
}

// callsOf lists the exports that run in the given phases.
func callsOf(phases abi.Phase) string {
	var names []string
	for _, e := range exports {
		if e.phase&phases != 0 {
			names = append(names, e.name)
		}
	}
	return strings.Join(names, ", ")
}

// countOutput counts n bytes of output. It returns false if the call has exceeded its limit.
func (c *call) countOutput(n int) bool {
	c.output += int64(n)
	if c.output > c.limit {
		c.abort(KindOutput, fmt.Sprintf("more than %d bytes, the limit for an input of %d", c.limit, c.inputSize()))
		return false
	}
	return true
}

// chargeBytes charges fuel for n bytes that the host reads or writes in addition to the import's arguments.
func (c *call) chargeBytes(n int) {
	if c.meter != nil {
		c.meter.Charge(int64(n) / fuelBytes)
	}
}

// chargeUnits charges units of fuel for work of the host in addition to reading the import's arguments.
func (c *call) chargeUnits(n int64) {
	if c.meter != nil {
		c.meter.Charge(n)
	}
}

// checkName reports whether an ID, a name or another short single-line text is valid. If not, it aborts the call with
// an error that refers to the text as subject.
func (c *call) checkName(p []byte, subject string) bool {
	switch {
	case len(p) > abi.MaxName:
		c.abort(KindProtocol, subject+" is longer than the contract allows")
	case !utf8.Valid(p):
		c.abort(KindProtocol, subject+" is not UTF-8")
	case hasControl(p):
		c.abort(KindProtocol, subject+" contains a control character")
	default:
		return true
	}
	return false
}

func hasControl(p []byte) bool {
	for _, b := range p {
		if b < ' ' || b == 0x7f {
			return true
		}
	}
	return false
}

// redact removes configured credentials from a text and charges for the search. The result may be p itself.
func (c *call) redact(p []byte) []byte {
	if c.meter != nil && len(p) > 0 {
		c.meter.Charge(int64(len(p)+searchOverhead) * c.binding.searches() / searchBytes)
	}
	return c.binding.redact(p)
}

// redactBeginning is redact for a text of which only the first n bytes are used. It does not search all of the text.
func (c *call) redactBeginning(p []byte, n int) []byte {
	if len(p) <= n+maxCredential {
		return c.redact(p)
	}
	// The cut may go through a credential, which the search would then miss. Drop as much as a credential may be long.
	p = c.redact(p[:n+maxCredential])
	return p[:max(0, len(p)-maxCredential)]
}

// maxCredential is the maximum length of a credential that is redacted reliably in a text that is cut.
const maxCredential = 4 << 10

// sanitize prepares a plugin's text for an error or a log: redacted, valid UTF-8, at most n bytes.
func (c *call) sanitize(p []byte, n int) []byte {
	p = c.redactBeginning(p, n)
	if len(p) > n {
		p = p[:n]
		for range utf8.UTFMax - 1 {
			if r, size := utf8.DecodeLastRune(p); r != utf8.RuneError || size != 1 {
				break
			}
			p = p[:len(p)-1]
		}
	}
	return bytes.ToValidUTF8(p, []byte("\uFFFD"))
}

// printable converts a text for a header or a log field: printable ASCII, at most n bytes.
func printable(p []byte, n int) string {
	out := make([]byte, 0, min(len(p), n))
	for _, b := range p[:min(len(p), n)] {
		if b < ' ' || b >= 0x7f {
			b = '?'
		}
		out = append(out, b)
	}
	return string(out)
}

// Log implements abi.Host.
func (c *call) Log(level abi.LogLevel, message []byte) {
	if !c.beginImport(importLog) {
		return
	}
	if level < abi.LogDebug || level > abi.LogError {
		c.ignore(int32(level))
		return
	}
	message = message[:min(len(message), abi.MaxLogLine+maxCredential)]
	if level >= abi.LogWarn {
		c.out.logged = append(c.out.logged[:0], message...)
	}
	c.out.add(level, message)
}

// HostMinor implements abi.Host.
func (c *call) HostMinor() int32 {
	c.beginImport(importHostMinor)
	return abi.Minor
}

// maxRetryAfter caps the Retry-After that a plugin reports, just like one that comes from a provider.
const maxRetryAfter = time.Hour

// maxFailMessage is the maximum length of a failure's message in bytes; longer ones are truncated.
const maxFailMessage = 2 << 10

// Fail implements abi.Host. Invalid texts are truncated and repaired rather than refused: they come from a provider,
// and the failure matters more than its wording.
func (c *call) Fail(kind abi.FailKind, code, param, message []byte, retryAfterMs int32) {
	if !c.beginImport(importFail) || !c.countOutput(len(code)+len(param)+len(message)+entryCost) {
		return
	}
	if kind < 0 || kind >= abi.FailKinds {
		c.ignore(int32(kind)) // apierror.Fail reports it as FailServer
	}
	e := apierror.Fail(kind, string(c.sanitize(code, abi.MaxName)), string(c.sanitize(param, abi.MaxName)), string(c.sanitize(message, maxFailMessage)))
	if retryAfterMs > 0 {
		e.RetryAfter = min(time.Duration(retryAfterMs)*time.Millisecond, maxRetryAfter)
	}
	c.failure = e
	c.batch.Fail(e)
}

// ResponseHeader implements abi.Host.
func (c *call) ResponseHeader(name, dst []byte) int32 {
	if !c.beginImport(importResponseHeader) {
		return int32(abi.StatusRefused)
	}
	if !httpfield.ValidName(name) || len(name) > abi.MaxName {
		c.abort(KindProtocol, "invalid header name")
		return int32(abi.StatusRefused)
	}
	var buf [abi.MaxName]byte
	lower := httpfield.AppendLower(buf[:0], name)
	if neverRead[string(lower)] {
		return int32(abi.StatusRefused)
	}
	if c.header == nil {
		return int32(abi.StatusAbsent)
	}
	value := c.header(lower)
	if value == nil {
		return int32(abi.StatusAbsent)
	}
	c.chargeBytes(len(value))
	value = c.redact(value)
	copy(dst, value)
	return int32(len(value))
}

// StateGet implements abi.Host. A call sees the state that it has set itself.
func (c *call) StateGet(dst []byte) int32 {
	if !c.beginImport(importStateGet) {
		return 0
	}
	state := c.attempt.state
	if c.stateSet {
		state = c.state
	}
	c.chargeBytes(min(len(state), len(dst)))
	copy(dst, state)
	return int32(len(state))
}

// StateSet implements abi.Host.
func (c *call) StateSet(state []byte) abi.Status {
	if !c.beginImport(importStateSet) {
		return abi.StatusRefused
	}
	if len(state) > abi.MaxState {
		return c.noteStatus(abi.StatusTooLarge)
	}
	c.state, c.stateSet = append(c.state[:0], state...), true
	return abi.StatusOK
}

// maxNoted limits how many unknown elements, and how many unknown numbers, of one call are recorded.
const maxNoted = 16

// ignore records a number passed to the running import that this host does not know, because the plugin was built for a
// newer ABI.
func (c *call) ignore(number int32) {
	if len(c.ignored) < maxNoted {
		c.ignored = append(c.ignored, fmt.Sprintf("%s %d", abi.Imports[c.running].Name, number))
	}
}

// noteUnknown counts and logs the elements that the plugin has reported as unknown, and the numbers that this host did
// not know.
func (c *call) noteUnknown() {
	if c.attempt != nil {
		c.attempt.Unknown += len(c.unknown) + len(c.ignored)
	}
	c.plugin.noteOnce(&c.plugin.unknown, c.binding, "plugin skipped an unknown element", c.unknown...)
	c.plugin.noteOnce(&c.plugin.unknown, c.binding, "plugin used a number of a newer ABI: ignored", c.ignored...)
}

// Unknown implements abi.Host.
func (c *call) Unknown(what []byte) {
	const length = 64
	if !c.beginImport(importUnknown) || !c.countOutput(entryCost) {
		return
	}
	if len(c.unknown) < maxNoted {
		c.unknown = append(c.unknown, printable(c.redactBeginning(what, length), length))
	}
}
