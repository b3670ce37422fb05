package plugin

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"bytes"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// invocation is what one call of a guest is made with. Its byte slices belong to the caller and outlive the call.
type invocation struct {
	export  export
	binding *Binding
	number  int32  // HTTP status or event kind
	first   []byte // the event's name; else the whole input
	second  []byte // the event's data

	attempt    *Attempt                 // request and answer phases
	header     func(name []byte) []byte // answer and models phases; may be nil
	candidates int                      // router phase
	result     *result                  // list, models and router phases
	ticket     *ticket                  // of the attempt that the call is of, nil for lists
}

// result takes what a call without an Attempt said.
type result struct {
	out     OutRequest
	page    Page
	order   []int
	explain string
	ticket  ticket
}

// call is the host's side of one call of a guest: the functions of package abi's Host, which a guest calls directly when
// it is native and through the table in imports.go when it is Wasm.
//
// What the guest says is kept here and goes into the Attempt in commit, which runs only where the call has returned 0
// and nothing went wrong. Nothing in here panics on what a guest does: the first error is recorded, takes away the
// guest's fuel, and makes all later imports do nothing; it wins over whatever the call returns.
//
// A call belongs to its instance and is used again for the next call of it.
type call struct {
	invocation
	plugin  *Plugin
	meter   meter // nil for a native guest
	phase   abi.Phase
	running int // the import that runs, by its index in abi.Imports; -1 for none
	err     *CallError

	output, limit int64 // bytes so far, and at most

	batch   response.Batch
	failure *apierror.Error
	done    bool // done(0) was said
	state   []byte
	stateOn bool // state_set was called
	tools   []toolKey
	texts   textCount
	unknown []string

	edits         jsondoc.Edits
	path          []byte
	refused       error // why request_path was refused last
	refusedHeader error // why request_header was
	headers       []Header
	own           []byte
	ownOn         bool // the plugin writes a body of its own
	copied        int64
	aliases       []alias
	answerOn      bool
	framing       abi.Framing
	dialect       abi.Dialect
	options       native.Options
	warnings      []Warning

	models  [][]byte
	next    []byte
	order   []int
	explain []byte

	extra   []byte // scratch: the value of an extra member
	summary []byte

	// Of the calls before: what is mostly the same from one request to the next.
	known       texts
	lastOptions []byte         // of answer
	lastRead    native.Options // what they say

	choosing  bool   // sluice_plugin runs
	complaint []byte // the last line that it or sluice_configure logged
}

type (
	toolKey struct{ choice, key int32 }
	alias   struct{ alias, name []byte }
)

// meter is the fuel of a Wasm instance.
type meter interface {
	Charge(units int64)
	Exhaust()
}

var _ abi.Host = (*call)(nil)

// Prices, in bytes of output: what an event or an entry of a list costs beside its text, so that empty ones have an end.
const entryCost = 32

// begin prepares for one call. limit follows rule 14: 8 × input + 64 KiB. For provider_request the input is the summary
// and the client's body, read or not, so that a body of the plugin's own can repeat the client's in another dialect; the
// events of a plugin that answers itself are bounded by the same figure. Ranges copied natively do not count as output,
// for they never pass through the guest: request_copy has a bound of its own.
func (c *call) begin(inv *invocation) {
	c.invocation = *inv
	c.phase = exports[inv.export].phase
	c.err, c.failure, c.running = nil, nil, -1
	c.refused, c.refusedHeader = nil, nil
	c.output = 0
	c.done, c.stateOn = false, false
	c.tools, c.unknown = c.tools[:0], c.unknown[:0]
	c.batch.Reset()
	c.texts.reset()
	switch inv.export {
	case exportRequest:
		c.summary = inv.attempt.Summary.Append(c.summary[:0])
		c.first = c.summary
		c.edits.Reset(&inv.attempt.Request.Doc)
		c.path = c.path[:0]
		c.headers, c.aliases, c.warnings = c.headers[:0], c.aliases[:0], c.warnings[:0]
		if c.own = inv.attempt.own[:0]; c.own == nil {
			c.own = borrowBody()
		}
		c.ownOn, c.copied = false, 0
		c.answerOn, c.framing, c.dialect, c.options = false, 0, 0, native.Options{}
	case exportList:
		c.path, c.headers = c.path[:0], c.headers[:0]
	case exportModels:
		c.models, c.next = nil, nil
	case exportChoose:
		c.order, c.explain = c.order[:0], nil
	case exportConfigure:
		c.complaint = nil
	}
	c.limit = abi.MaxOutputFactor*int64(c.inputSize()) + abi.MaxOutputBase
}

// inputSize is how many bytes the call is about: its input, and of a request the client's body.
func (c *call) inputSize() int {
	n := len(c.first) + len(c.second)
	if c.export == exportRequest {
		n += len(c.attempt.Request.Body)
	}
	return n
}

// commit puts what the call said where its caller finds it. It is called once, after status 0.
func (c *call) commit() error {
	switch c.export {
	case exportRequest:
		return c.commitRequest()
	case exportResponse, exportEvent, exportEnd:
		return c.commitAnswer()
	case exportList:
		return c.commitList()
	case exportModels:
		return c.commitModels()
	case exportChoose:
		return c.commitChoose()
	}
	return nil
}

// end drops everything that belongs to the call's caller.
func (c *call) end() {
	if c.attempt != nil && c.export == exportRequest {
		c.edits.Reset(nil)
		c.attempt.own = c.own[:0]
		c.own = nil
	}
	clear(c.headers)
	clear(c.aliases)
	clear(c.unknown)
	c.invocation = invocation{}
	c.phase = 0
}

// stop ends the call with an error, unless one was recorded before. reason never holds anything that the guest said.
func (c *call) stop(kind CallErrorKind, reason string) {
	if c.err != nil {
		return
	}
	if c.running >= 0 {
		reason = abi.Imports[c.running].Name + ": " + reason
	}
	c.err = &CallError{Kind: kind, Reason: reason}
	if c.meter != nil {
		c.meter.Exhaust()
	}
}

// guard makes a panic of the gateway in an import the failure of the call. It is deferred.
func (c *call) guard() {
	v := recover()
	if v == nil {
		return
	}
	e := c.plugin.panicked(c.export, v, debug.Stack())
	if c.running >= 0 {
		e.Reason = abi.Imports[c.running].Name
	}
	c.err = e
	c.meter.Exhaust()
}

// enter begins an import: false where it must do nothing, because the call has failed or the import is not of its phase.
func (c *call) enter(imp int) bool {
	if c.err != nil {
		return false
	}
	c.running = imp
	if abi.Imports[imp].Phases&c.phase == 0 {
		c.stop(KindProtocol, "not allowed in this call")
		return false
	}
	return true
}

// emit counts n bytes of output.
func (c *call) emit(n int) bool {
	c.output += int64(n)
	if c.output > c.limit {
		c.stop(KindOutput, "over the limit of a call's output")
		return false
	}
	return true
}

// charge takes fuel for n bytes that the host looks at beside those that the guest passed.
func (c *call) charge(n int) {
	if c.meter != nil {
		c.meter.Charge(int64(n) / fuelBytes)
	}
}

// name checks an id, a name or another short text of one line.
func (c *call) name(p []byte, what string) bool {
	switch {
	case len(p) > abi.MaxName:
		c.stop(KindProtocol, what+" is longer than the contract allows")
	case !utf8.Valid(p):
		c.stop(KindProtocol, what+" is not UTF-8")
	case hasControl(p):
		c.stop(KindProtocol, what+" holds a control character")
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

// redact takes configured credentials out of a text. The result may be the text itself.
func (c *call) redact(p []byte) []byte { return c.binding.redact(p) }

// maxRedacted is how much of a text is looked at of which only the beginning is kept: far more than that beginning, for
// what is cut before it is redacted may end in half a credential.
const maxRedacted = 16 << 10

// words makes a text of a plugin fit for an error or a log: redacted, valid UTF-8, at most n bytes.
func (c *call) words(p []byte, n int) []byte {
	p = c.redact(p)
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

// plain makes a text fit for a header or a log field: printable ASCII, at most n bytes.
func plain(p []byte, n int) string {
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
	if !c.enter(importLog) {
		return
	}
	if level < abi.LogDebug || level > abi.LogError {
		c.stop(KindProtocol, "unknown level")
		return
	}
	heeded := c.choosing || c.export == exportConfigure && c.binding != nil
	if !heeded && !c.plugin.log.enabled() {
		return
	}
	name := ""
	message = message[:min(len(message), maxRedacted)]
	if c.binding != nil {
		message, name = c.words(message, abi.MaxLogLine), c.binding.name
	}
	message = message[:min(len(message), abi.MaxLogLine)]
	if heeded && level >= abi.LogWarn {
		c.complaint = append(c.complaint[:0], message...)
	}
	if c.plugin.log.enabled() {
		c.plugin.log.write(time.Now(), name, level, message)
	}
}

// maxRetryAfter caps what a plugin may tell clients to wait, as what a provider may tell them is capped.
const maxRetryAfter = time.Hour

// maxFailMessage bounds a failure's message in bytes; provider messages are cut there.
const maxFailMessage = 2 << 10

// Fail implements abi.Host. Texts are cut and repaired rather than refused: they are a provider's, and the failure
// matters more than its words.
func (c *call) Fail(kind abi.FailKind, code, param, message []byte, retryAfterMs int32) {
	if !c.enter(importFail) || !c.emit(len(code)+len(param)+len(message)+entryCost) {
		return
	}
	if kind < 0 {
		c.stop(KindProtocol, "unknown kind of failure")
		return
	}
	e := apierror.Fail(kind, string(c.words(code, abi.MaxName)), string(c.words(param, abi.MaxName)), string(c.words(message, maxFailMessage)))
	if retryAfterMs > 0 {
		e.RetryAfter = min(time.Duration(retryAfterMs)*time.Millisecond, maxRetryAfter)
	}
	c.failure = e
	c.batch.Fail(e)
}

// ResponseHeader implements abi.Host.
func (c *call) ResponseHeader(name, dst []byte) int32 {
	if !c.enter(importResponseHeader) {
		return int32(abi.StatusRefused)
	}
	if !httpfield.ValidName(name) || len(name) > abi.MaxName {
		c.stop(KindProtocol, "not the name of a header")
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
	c.charge(len(value))
	value = c.redact(value)
	copy(dst, value)
	return int32(len(value))
}

// StateGet implements abi.Host. A call sees what it has set itself.
func (c *call) StateGet(dst []byte) int32 {
	if !c.enter(importStateGet) {
		return 0
	}
	state := c.attempt.state
	if c.stateOn {
		state = c.state
	}
	c.charge(min(len(state), len(dst)))
	copy(dst, state)
	return int32(len(state))
}

// StateSet implements abi.Host.
func (c *call) StateSet(state []byte) abi.Status {
	if !c.enter(importStateSet) {
		return abi.StatusRefused
	}
	if len(state) > abi.MaxState {
		return abi.StatusTooLarge
	}
	c.state, c.stateOn = append(c.state[:0], state...), true
	return abi.StatusOK
}

// Unknown implements abi.Host.
func (c *call) Unknown(what []byte) {
	const keep, length = 16, 64
	if !c.enter(importUnknown) || !c.emit(entryCost) {
		return
	}
	if len(c.unknown) < keep {
		c.unknown = append(c.unknown, plain(c.redact(what[:min(len(what), maxRedacted)]), length))
	}
}
