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
	number  int32  // HTTP status, event kind, or what a text is
	first   []byte // the event's name, or what was held of a text; else the whole input
	second  []byte // the event's data, or the text
	choice  int32  // of a text
	flags   abi.TextFlags

	attempt    *Attempt                 // request and response phases
	header     func(name []byte) []byte // response and models phases; may be nil
	candidates int                      // router phase
	result     *result                  // list, models and router phases
	ticket     *ticket                  // of the call's attempt, nil for lists
	begins     bool                     // the call is the attempt's first, although its export does not say so
	filtering  *Filtering               // filter and text phases
}

// result is the output of a call without an Attempt.
type result struct {
	out     OutRequest
	page    Page
	order   []int
	explain string
	ticket  ticket
}

// call is the host's side of one call of a guest: it implements abi.Host, which a native guest calls directly, and a Wasm
// guest through the table in imports.go.
//
// The guest's output is collected here and goes into the Attempt in commit, which runs only if the call has returned 0
// without an error. Nothing that a guest does makes the host panic: the first error is recorded, and ends the call of a guest
// in WebAssembly at once. For a native guest it makes all later imports do nothing, and takes precedence over the call's status.
//
// A call belongs to its instance and is reused for the instance's next call.
type call struct {
	invocation
	plugin  *Plugin
	meter   meter // nil for a native guest
	phase   abi.Phase
	running int // index in abi.Imports of the import that runs; -1 for none
	err     *CallError

	output, limit int64 // bytes so far, and maximum

	batch   response.Batch
	failure *apierror.Error
	done    bool // done(0) was called
	state   []byte
	stateOn bool // state_set was called
	tools   []toolKey
	texts   textCount
	unknown []string // elements of the provider's that the plugin has reported
	ignored []string // numbers of the plugin's that this host does not know

	edits         jsondoc.Edits
	path          []byte
	refused       refusal // the last path
	refusedHeader refusal
	filterRefused filterRefusal
	headers       []Header
	own           []byte
	ownOn         bool // the plugin writes its own body
	parts         []partStart
	copied        int64
	aliases       []alias
	answerOn      bool
	framing       abi.Framing
	eventsAreJSON bool
	dialect       abi.Dialect
	options       native.Options
	warnings      []Warning

	tags     uint64
	replaced []replacement
	hold     int
	joined   []byte // texts of replacements

	models  [][]byte
	next    []byte
	order   []int
	explain []byte

	extra   []byte // scratch: the value of an extra member
	summary []byte
	input   inputDoc

	// Kept between calls: what is mostly the same from one request to the next.
	known       interned
	lastOptions []byte         // of the import answer
	lastRead    native.Options // parsed

	out guestOutput
}

type (
	toolKey struct{ choice, key int32 }
	alias   struct{ alias, name []byte }
)

// meter is the fuel of a Wasm instance.
type meter interface {
	Charge(units int64)
}

var _ abi.Host = (*call)(nil)

// entryCost is what an event or an entry of a list counts in bytes of output besides its text, so that empty ones are
// bounded, too.
const entryCost = 32

// begin prepares for one call. limit follows rule 14: 8 × input + 64 KiB. For provider_request the input is the summary
// and the client's body, read or not, so that the plugin's own body can repeat the client's in another dialect; the
// events of a plugin that responds itself have the same limit. Ranges copied by the host do not count as output,
// as they never pass through the guest: request_copy has its own limit.
func (c *call) begin(inv *invocation) {
	c.invocation = *inv
	c.phase = exports[inv.export].phase
	c.err, c.failure, c.running = nil, nil, -1
	c.refused.why, c.refusedHeader.why, c.filterRefused.on = nil, nil, false
	c.output = 0
	c.done, c.stateOn = false, false
	c.tools, c.unknown, c.ignored = c.tools[:0], c.unknown[:0], c.ignored[:0]
	c.input.reset()
	c.batch.Reset()
	c.texts.reset()
	c.out.reset(c.plugin.log.enabled())
	switch inv.export {
	case exportRequest:
		c.summary = inv.attempt.Summary.Append(c.summary[:0])
		c.first = c.summary
		c.edits.Reset(inv.attempt.Request.Doc)
		c.path = c.path[:0]
		c.headers, c.aliases, c.warnings = c.headers[:0], c.aliases[:0], c.warnings[:0]
		if c.own = inv.attempt.own[:0]; c.own == nil {
			c.own = borrowBody()
		}
		c.ownOn, c.copied, c.parts = false, 0, c.parts[:0]
		c.answerOn, c.framing, c.eventsAreJSON, c.dialect, c.options = false, 0, false, 0, native.Options{}
	case exportList:
		c.path, c.headers = c.path[:0], c.headers[:0]
	case exportModels:
		c.models, c.next = nil, nil
	case exportChoose:
		c.order, c.explain = c.order[:0], nil
	case exportFilterRequest, exportFilterText:
		c.tags, c.replaced, c.hold, c.joined = 0, c.replaced[:0], 0, response.Reuse(c.joined)
	}
	c.limit = abi.MaxOutputFactor*int64(c.inputSize()) + abi.MaxOutputBase
}

// inputSize returns the bytes of the call's input, and for a request of the client's body.
func (c *call) inputSize() int {
	n := len(c.first) + len(c.second)
	if c.export == exportRequest {
		n += len(c.attempt.Request.Body)
	}
	return n
}

// commit makes the call's output take effect. It is called once, after status 0.
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

// end drops all references to what belongs to the caller.
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

// abort ends the call with an error, unless one was recorded before. reason never contains the guest's words.
func (c *call) abort(kind CallErrorKind, reason string) {
	if c.err != nil {
		return
	}
	if c.running >= 0 {
		reason = abi.Imports[c.running].Name + ": " + reason
	}
	c.err = &CallError{Kind: kind, Reason: reason}
}

// importPanicked turns a panic of the gateway in an import into the failure of the call.
func (c *call) importPanicked(p *rescue.Error) {
	e := c.plugin.panicked(c.export, p)
	if c.running >= 0 {
		e.Reason = abi.Imports[c.running].Name
	}
	c.err = e
}

// beginImport begins an import. It is false if the import must do nothing, as the call has failed or is in another phase.
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

// callsOf lists the exports that may use an import.
func callsOf(phases abi.Phase) string {
	var names []string
	for _, e := range exports {
		if e.phase&phases != 0 {
			names = append(names, e.name)
		}
	}
	return strings.Join(names, ", ")
}

// countOutput counts n bytes of output.
func (c *call) countOutput(n int) bool {
	c.output += int64(n)
	if c.output > c.limit {
		c.abort(KindOutput, fmt.Sprintf("more than %d bytes, the limit for an input of %d", c.limit, c.inputSize()))
		return false
	}
	return true
}

// chargeBytes charges fuel for n bytes that the host reads or writes besides those that the guest passed.
func (c *call) chargeBytes(n int) {
	if c.meter != nil {
		c.meter.Charge(int64(n) / fuelBytes)
	}
}

// chargeUnits charges fuel for what the host does beyond reading what the guest passed.
func (c *call) chargeUnits(n int64) {
	if c.meter != nil {
		c.meter.Charge(n)
	}
}

// checkName checks an id, a name or another short text of one line.
func (c *call) checkName(p []byte, what string) bool {
	switch {
	case len(p) > abi.MaxName:
		c.abort(KindProtocol, what+" is longer than the contract allows")
	case !utf8.Valid(p):
		c.abort(KindProtocol, what+" is not UTF-8")
	case hasControl(p):
		c.abort(KindProtocol, what+" contains a control character")
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

// redact removes configured credentials from a text, and charges for the search. The result may be the text itself.
func (c *call) redact(p []byte) []byte {
	if c.meter != nil && len(p) > 0 {
		c.meter.Charge(int64(len(p)+searchOverhead) * c.binding.searches() / searchBytes)
	}
	return c.binding.redact(p)
}

// redactBeginning is redact for a text of which only the first n bytes are used.
func (c *call) redactBeginning(p []byte, n int) []byte {
	if len(p) <= n+maxCredential {
		return c.redact(p)
	}
	// The end may be a part of a credential.
	p = c.redact(p[:n+maxCredential])
	return p[:max(0, len(p)-maxCredential)]
}

// maxCredential is the length of a credential that is redacted where a text is cut.
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

// printable makes a text fit for a header or a log field: printable ASCII, at most n bytes.
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

// maxRetryAfter caps the Retry-After of a plugin, as that of a provider is capped.
const maxRetryAfter = time.Hour

// maxFailMessage is the maximum length of a failure's message in bytes; longer ones are truncated.
const maxFailMessage = 2 << 10

// Fail implements abi.Host. Texts are truncated and repaired rather than refused: they come from a provider, and the
// failure matters more than its wording.
func (c *call) Fail(kind abi.FailKind, code, param, message []byte, retryAfterMs int32) {
	if !c.beginImport(importFail) || !c.countOutput(len(code)+len(param)+len(message)+entryCost) {
		return
	}
	if kind < 0 || kind >= abi.FailKinds {
		c.ignore(int32(kind)) // the failure itself counts, as one of the provider
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

// StateGet implements abi.Host. A call sees what it has set itself.
func (c *call) StateGet(dst []byte) int32 {
	if !c.beginImport(importStateGet) {
		return 0
	}
	state := c.attempt.state
	if c.stateOn {
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
		return abi.StatusTooLarge
	}
	c.state, c.stateOn = append(c.state[:0], state...), true
	return abi.StatusOK
}

// maxNoted is how many unknown elements and numbers of one call are noted.
const maxNoted = 16

// ignore counts a number that this host does not know in the import that runs: the plugin was written for a newer one.
func (c *call) ignore(number int32) {
	if len(c.ignored) < maxNoted {
		c.ignored = append(c.ignored, fmt.Sprintf("%s %d", abi.Imports[c.running].Name, number))
	}
}

// noteUnknown counts what the call has reported as unknown, and what this host did not know of it.
func (c *call) noteUnknown() {
	if c.attempt != nil {
		c.attempt.Unknown += len(c.unknown) + len(c.ignored)
	}
	c.plugin.noteUnknown(c.binding, "plugin skipped an unknown element", c.unknown)
	c.plugin.noteUnknown(c.binding, "plugin used a number of a newer ABI: ignored", c.ignored)
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
