package plugin

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Limits of what one call may record for a request.
const (
	maxAliases  = 1024
	maxWarnings = 64
	maxOptions  = 4 << 10

	// pathPasses is the price of checking a path in addition to reading it, in passes over its bytes.
	pathPasses = 3

	// maxCopies limits the bytes that request_copy may copy in one call, as a multiple of the client's body. Most
	// dialects copy each range once; the second time is for dialects that repeat a part of the body.
	maxCopies = 2
)

// chargeVisits charges for the values of the client's body that a look-up has visited. before is Doc.Visited before the
// look-up. Finding a member of an object takes the host time in proportion to the number of members before it.
func (c *call) chargeVisits(before uint64) {
	c.chargeUnits(int64(c.attempt.Request.Doc.Visited() - before))
}

// BodyGet implements abi.Host. The bytes are the client's own; a string keeps its quotes and escapes.
func (c *call) BodyGet(path, dst []byte) int32 {
	if !c.beginImport(importBodyGet) {
		return int32(abi.StatusRefused)
	}
	value := c.attempt.Request.Body
	if len(path) > 0 {
		v := c.lookUpBody(path)
		if !v.Exists() {
			return int32(abi.StatusAbsent)
		}
		value = v.Raw()
	}
	c.chargeBytes(min(len(value), len(dst)))
	copy(dst, value)
	return int32(len(value))
}

// lookUpBody finds a value in the client's body by its JSON pointer.
func (c *call) lookUpBody(path []byte) jsondoc.Value {
	doc := c.attempt.Request.Doc
	before := doc.Visited()
	v := doc.Pointer(path)
	c.chargeVisits(before)
	return v
}

// BodyCount implements abi.Host.
func (c *call) BodyCount(path []byte) int32 {
	if !c.beginImport(importBodyCount) {
		return int32(abi.StatusRefused)
	}
	v := c.lookUpBody(path)
	if !v.Exists() {
		return int32(abi.StatusAbsent)
	}
	return c.countValues(v)
}

// indexedValues is how many values of the client's body the host looks at for a unit of fuel.
const indexedValues = 8

// BodyIndex implements abi.Host.
func (c *call) BodyIndex(size int32, dst []byte) int32 {
	if !c.beginImport(importBodyIndex) {
		return int32(abi.StatusRefused)
	}
	doc := c.attempt.Request.Doc
	c.chargeUnits(int64(doc.Values() / indexedValues))
	c.extra = doc.AppendBounds(response.Reuse(c.extra), max(int(size), abi.MinIndexed))
	c.chargeBytes(len(c.extra) + min(len(c.extra), len(dst)))
	copy(dst, c.extra)
	return int32(len(c.extra))
}

// edit records one of the four edits of the client's body, which has n bytes in addition to its path.
func (c *call) edit(imp int, path []byte, n int, record func(*jsondoc.Edits) abi.Status) abi.Status {
	if !c.beginImport(imp) || !c.countOutput(len(path)+n+entryCost) {
		return abi.StatusRefused
	}
	if c.writesBody {
		c.abort(KindProtocol, "body both edited and written")
		return abi.StatusRefused
	}
	before := c.attempt.Request.Doc.Visited()
	s := record(&c.edits)
	c.chargeVisits(before)
	return s
}

// BodySet implements abi.Host.
func (c *call) BodySet(path, json []byte) abi.Status {
	return c.edit(importBodySet, path, len(json), func(e *jsondoc.Edits) abi.Status { return c.noteStatus(e.Set(path, json)) })
}

// BodyDelete implements abi.Host.
func (c *call) BodyDelete(path []byte) abi.Status {
	return c.edit(importBodyDelete, path, 0, func(e *jsondoc.Edits) abi.Status { return e.Delete(path) })
}

// BodyRename implements abi.Host.
func (c *call) BodyRename(path, name []byte) abi.Status {
	return c.edit(importBodyRename, path, len(name), func(e *jsondoc.Edits) abi.Status { return e.Rename(path, name) })
}

// BodyReplace implements abi.Host.
func (c *call) BodyReplace(path, old, new []byte) abi.Status {
	return c.edit(importBodyReplace, path, len(old)+len(new), func(e *jsondoc.Edits) abi.Status { return e.Replace(path, old, new) })
}

// RequestPath implements abi.Host. The last accepted path is used.
func (c *call) RequestPath(path []byte) abi.Status {
	if !c.beginImport(importRequestPath) {
		return abi.StatusRefused
	}
	if len(path) > maxPath {
		c.refused.set(errPathLong, path)
		return c.noteStatus(abi.StatusTooLarge)
	}
	c.chargeBytes(pathPasses * len(path))
	if err := checkPath(path, c.binding.paths, c.binding.credentialQuery); err != nil {
		c.refused.set(err, path)
		return c.noteStatus(abi.StatusRefused)
	}
	c.path = append(c.path[:0], path...)
	c.refused.reason = nil // a path refused before does not matter
	return c.noteStatus(abi.StatusOK)
}

// RequestHeader implements abi.Host. The last value of a name is used.
func (c *call) RequestHeader(name, value []byte) abi.Status {
	if !c.beginImport(importRequestHeader) {
		return abi.StatusRefused
	}
	switch {
	case len(name) > abi.MaxName || len(value) > maxHeaderValue:
		c.refusedHeader.set(errHeaderLong, name)
		return c.noteStatus(abi.StatusTooLarge)
	case !httpfield.ValidName(name):
		c.abort(KindProtocol, "invalid header name")
		return abi.StatusRefused
	case !httpfield.ValidValue(value) || !httpfield.ASCII(value):
		c.abort(KindProtocol, "invalid header value")
		return abi.StatusRefused
	}
	c.chargeBytes(len(value))
	var buf [abi.MaxName]byte
	lower := c.known.intern(httpfield.AppendLower(buf[:0], name))
	if !c.binding.headers[lower] {
		c.refusedHeader.set(c.refusedHeaderReason(lower), name)
		return c.noteStatus(abi.StatusRefused)
	}
	for i := range c.headers {
		if c.headers[i].Name == lower {
			c.headers[i].Value = c.known.intern(value)
			return abi.StatusOK
		}
	}
	if len(c.headers) >= maxHeaders {
		return abi.StatusTooLarge
	}
	c.headers = append(c.headers, Header{Name: lower, Value: c.known.intern(value)})
	return abi.StatusOK
}

// beginWrite begins an import that appends to the plugin's own body, which excludes edits of the client's.
func (c *call) beginWrite(imp int) bool {
	if !c.beginImport(imp) {
		return false
	}
	if c.edits.Len() > 0 {
		c.abort(KindProtocol, "body both edited and written")
		return false
	}
	c.writesBody = true
	return true
}

// RequestWrite implements abi.Host.
func (c *call) RequestWrite(p []byte) {
	if c.beginWrite(importRequestWrite) && c.countOutput(len(p)) {
		c.own = append(c.own, p...)
	}
}

// RequestString implements abi.Host.
func (c *call) RequestString(text []byte) abi.Status {
	if !c.beginWrite(importRequestString) || !c.countOutput(len(text)) {
		return abi.StatusRefused
	}
	if !utf8.Valid(text) {
		return c.noteStatus(abi.StatusRefused)
	}
	n := len(c.own)
	c.own = append(jsondoc.AppendEscaped(append(c.own, '"'), text), '"')
	c.chargeBytes(len(c.own) - n)
	c.countOutput(len(c.own) - n - len(text)) // quotes and escapes
	return abi.StatusOK
}

// RequestCopy implements abi.Host.
func (c *call) RequestCopy(offset, length int32) {
	if !c.beginWrite(importRequestCopy) {
		return
	}
	body := c.attempt.Request.Body
	if offset < 0 || length < 0 || int64(offset)+int64(length) > int64(len(body)) {
		c.abort(KindProtocol, "range outside of the client's body")
		return
	}
	if c.copied += int64(length); c.copied > maxCopies*int64(len(body)) {
		c.abort(KindOutput, "client's body copied too often")
		return
	}
	c.chargeBytes(int(length))
	c.own = append(c.own, body[offset:offset+length]...)
}

// RequestPart implements abi.Host.
func (c *call) RequestPart(part int32) {
	if !c.beginWrite(importRequestPart) || !c.countOutput(entryCost) {
		return
	}
	if part < 0 || part >= abi.MaxParts {
		c.abort(KindProtocol, "invalid part of the body")
		return
	}
	c.parts = append(c.parts, partStart{part, len(c.own)})
}

// partStart marks a position from which the plugin writes to a part of its own body, up to the next partStart.
type partStart struct {
	part int32
	at   int // offset in call.own
}

// joinParts reorders the plugin's own body by part.
func (c *call) joinParts() {
	if slices.IsSortedFunc(c.parts, func(a, b partStart) int { return cmp.Compare(a.part, b.part) }) {
		return // already in order
	}
	joined := slices.Grow(borrowBody(), len(c.own))
	for part := range int32(abi.MaxParts) {
		from, current := 0, int32(0)
		for _, p := range c.parts {
			if current == part {
				joined = append(joined, c.own[from:p.at]...)
			}
			from, current = p.at, p.part
		}
		if current == part {
			joined = append(joined, c.own[from:]...)
		}
	}
	returnBody(c.own)
	c.own = joined
}

// ToolAlias implements abi.Host.
func (c *call) ToolAlias(from, to []byte) abi.Status {
	if !c.beginImport(importToolAlias) || !c.countOutput(len(from)+len(to)+entryCost) {
		return abi.StatusRefused
	}
	if len(from) > abi.MaxName || len(to) > abi.MaxName || len(c.aliases) >= maxAliases {
		return c.noteStatus(abi.StatusTooLarge)
	}
	if !c.checkName(from, "the alias") || !c.checkName(to, "the tool's name") {
		return abi.StatusRefused
	}
	if len(from) == 0 || len(to) == 0 {
		c.abort(KindProtocol, "empty name")
		return abi.StatusRefused
	}
	c.aliases = append(c.aliases, alias{bytes.Clone(from), bytes.Clone(to)})
	return abi.StatusOK
}

// Answer implements abi.Host.
func (c *call) Answer(framing abi.Framing, d abi.Dialect, options []byte) abi.Status {
	if !c.beginImport(importAnswer) {
		return abi.StatusRefused
	}
	eventsAreJSON := framing&abi.FramingEventsAreJSON != 0
	framing &^= abi.FramingEventsAreJSON
	switch framing {
	case abi.FramingJSON, abi.FramingSSE, abi.FramingNDJSON, abi.FramingAWSEventStream, abi.FramingAWSInvoke:
	default:
		return c.refuseAnswer(abi.StatusUnknown, "framing %d is not in this version of the ABI", framing)
	}
	if len(options) > maxOptions {
		return c.refuseAnswer(abi.StatusTooLarge, "options of more than %d bytes", maxOptions)
	}
	switch d {
	case abi.DialectTranslated, abi.DialectOpenAI, abi.DialectMessages, abi.DialectResponses, abi.DialectGemini:
	default:
		return c.refuseAnswer(abi.StatusUnknown, "dialect %d is not in this version of the ABI", d)
	}
	// The options are for the OpenAI dialect, which a translating plugin uses through openai_event. They are mostly the
	// same for every request, so the last parsed ones are kept.
	if !bytes.Equal(options, c.lastOptions) {
		o, err := native.ParseOptions(options)
		if err != nil {
			return c.refuseAnswer(abi.StatusRefused, "options are not a JSON object with valid members")
		}
		c.lastOptions, c.lastRead = bytes.Clone(options), o
	}
	c.answerSet, c.framing, c.eventsAreJSON, c.dialect = true, framing, eventsAreJSON, d
	if len(options) > 0 {
		c.options = c.lastRead
	}
	return c.noteStatus(abi.StatusOK)
}

// Warn implements abi.Host. Members come from the client, so an invalid one is made printable rather than refused.
func (c *call) Warn(kind abi.WarnKind, member []byte) {
	if !c.beginImport(importWarn) {
		return
	}
	if kind < 0 || kind >= abi.WarnKinds {
		c.ignore(int32(kind))
		return
	}
	if len(c.warnings) >= maxWarnings {
		return
	}
	w := Warning{Kind: kind, Member: printable(c.redactBeginning(member, abi.MaxName), abi.MaxName)}
	if !slices.Contains(c.warnings, w) {
		c.warnings = append(c.warnings, w)
	}
}

var (
	errNoRequest  = errors.New("neither a request nor a response: want request_path or events")
	errTwoAnswers = errors.New("both a request and a response")
	errNoDone     = errors.New("a response without done(0)")
)

// commitRequest sets the attempt's upstream request, or writes the response of a plugin that responds itself.
func (c *call) commitRequest() error {
	a := c.attempt
	answered := len(c.batch.Events) > 0
	hasRequest := len(c.path) > 0 || c.answerSet || c.writesBody || c.edits.Len() > 0 || len(c.headers) > 0
	switch {
	case c.failure != nil && !answered:
		return c.failure
	case answered && hasRequest:
		return c.newProtocolError(errTwoAnswers)
	case answered && !c.done && c.failure == nil:
		return c.newProtocolError(errNoDone)
	case answered:
		if err := c.applyBatch(); err != nil {
			return err
		}
		c.commitState()
		a.Answered = true
	case len(c.path) == 0 && c.refused.reason != nil:
		return c.newProtocolError(c.refusedRequest())
	case len(c.path) == 0:
		return c.newProtocolError(errNoRequest)
	default:
		body, err := c.body()
		if err != nil {
			return c.newProtocolError(err)
		}
		c.commitState()
		a.Out.Path = c.known.intern(c.path)
		a.Out.Headers = append(a.Out.Headers[:0], c.headers...)
		a.Out.Body = body
		a.Answered = false
		a.Framing, a.EventsAreJSON, a.Dialect, a.DialectOptions = c.framing, c.eventsAreJSON, c.dialect, c.options
		a.reader.reset(c.options)
	}
	clear(a.aliases)
	for _, al := range c.aliases {
		if a.aliases == nil {
			a.aliases = make(map[string][]byte)
		}
		a.aliases[string(al.alias)] = al.name
	}
	a.Warnings = append(a.Warnings[:0], c.warnings...)
	if c.failure != nil {
		return c.failure
	}
	return nil
}

// body returns the body of the upstream request: the plugin's own, the client's with the edits applied, or the client's
// unchanged. All of them are JSON, as the request's content type says: the client's body has been parsed, edits
// preserve that, and the plugin's own body is checked unless the plugin is bundled.
func (c *call) body() ([]byte, error) {
	r := c.attempt.Request
	switch {
	case c.writesBody:
		c.joinParts()
		if len(c.own) == 0 || c.plugin.bundled {
			return c.own, nil
		}
		if err := jsondoc.CheckUTF8(c.own); err != nil {
			return nil, notJSON("the body of the request", c.own, err)
		}
		return c.own, nil
	case c.edits.Len() > 0:
		var err error
		c.own, err = c.edits.Apply(c.own[:0])
		return c.own, err
	}
	return r.Body, nil
}

// commitList sets the result of provider_list. A plugin that sets no path has no model list.
func (c *call) commitList() error {
	if len(c.path) == 0 {
		if c.refused.reason != nil {
			return c.newProtocolError(c.refusedRequest())
		}
		c.result.out = OutRequest{}
		return nil
	}
	c.result.out = OutRequest{Path: string(c.path), Headers: append([]Header(nil), c.headers...)}
	return nil
}
