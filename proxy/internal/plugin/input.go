package plugin

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// inputDoc is the JSON document in a call's input, for plugins that let the host parse it. It is parsed at the first
// look-up and belongs to one call.
type inputDoc struct {
	doc   jsondoc.Doc
	state inputState
}

type inputState uint8

const (
	inputUnread inputState = iota
	inputJSON
	inputInvalid
)

// reset forgets the document of the last call.
func (d *inputDoc) reset() {
	if d.state != inputUnread {
		d.doc.Reset()
		d.state = inputUnread
	}
}

// inputLimits are loose, because the documents are mostly responses of providers. The elements of arrays of numbers,
// such as embeddings, are not indexed one by one.
var inputLimits = jsondoc.Limits{Loose: true, FlatNumbers: true}

// inputPasses is the price of parsing an input, in passes over its bytes.
const inputPasses = 4

// readInput parses the document in the call's input, once. It returns false if it is not JSON.
func (c *call) readInput() bool {
	if c.input.state == inputUnread {
		p := c.first
		switch c.export {
		case exportEvent:
			p = c.second
		case exportChoose:
			p = routerDocument(p)
		case exportRequest:
			if c.plugin.exports[exportSummary] { // the compact summary has no document
				p = nil
			}
		}
		c.chargeBytes(inputPasses * len(p))
		c.input.state = inputInvalid
		if c.input.doc.Parse(p, inputLimits) == nil {
			c.input.state = inputJSON
		}
	}
	return c.input.state == inputJSON
}

// routerDocument returns the document in the input of a router: all of it, or the end of the compact input. Only the
// latter has zeros in its first four bytes, the size of its head.
func routerDocument(input []byte) []byte {
	if len(input) < abi.RouterHeadSize || input[3] != 0 {
		return input
	}
	n := binary.LittleEndian.Uint32(input[20:])
	return input[len(input)-min(int(n), len(input)):]
}

// lookUpInput finds a value in the call's input by its JSON pointer. An element of an array of numbers has no Value:
// its text is returned as number.
func (c *call) lookUpInput(imp int, path []byte) (v jsondoc.Value, number []byte, s abi.Status) {
	if !c.beginImport(imp) || !c.readInput() {
		return v, nil, abi.StatusRefused
	}
	doc := &c.input.doc
	before := doc.Visited()
	if v = doc.Pointer(path); !v.Exists() {
		number = c.flatNumber(path)
	}
	c.chargeUnits(int64(doc.Visited() - before))
	if !v.Exists() && number == nil {
		return v, nil, abi.StatusAbsent
	}
	return v, number, abi.StatusOK
}

// flatNumber returns the text of an element of an array of numbers.
func (c *call) flatNumber(path []byte) []byte {
	i := bytes.LastIndexByte(path, '/')
	if i < 0 {
		return nil
	}
	index, ok := jsondoc.Index(path[i+1:])
	if !ok {
		return nil
	}
	numbers, ok := flatNumbers(c.input.doc.Pointer(path[:i]))
	c.chargeBytes(len(numbers))
	for n := 0; ok; n++ {
		var element []byte
		if element, numbers, ok = bytes.Cut(numbers, []byte{','}); n == int(index) {
			return bytes.TrimSpace(element)
		}
	}
	return nil
}

// flatNumbers returns the text between the brackets of an array of numbers whose elements are not indexed.
func flatNumbers(v jsondoc.Value) ([]byte, bool) {
	if v.Kind() != jsondoc.Array || v.First().Exists() {
		return nil, false
	}
	raw := v.Raw()
	inside := bytes.TrimSpace(raw[1 : len(raw)-1])
	return inside, len(inside) > 0
}

// InputGet implements abi.Host. The bytes are as in the input; a string keeps its quotes and escapes.
func (c *call) InputGet(path, dst []byte) int32 {
	v, raw, s := c.lookUpInput(importInputGet, path)
	if s != abi.StatusOK {
		return int32(s)
	}
	if v.Exists() {
		raw = v.Raw()
	}
	c.chargeBytes(min(len(raw), len(dst)))
	copy(dst, raw)
	return int32(len(raw))
}

// InputCount implements abi.Host.
func (c *call) InputCount(path []byte) int32 {
	v, _, s := c.lookUpInput(importInputCount, path)
	if s != abi.StatusOK {
		return int32(s)
	}
	return c.countValues(v)
}

// countValues returns the number of an array's elements or an object's members.
func (c *call) countValues(v jsondoc.Value) int32 {
	if numbers, ok := flatNumbers(v); ok {
		c.chargeBytes(len(numbers))
		return int32(bytes.Count(numbers, []byte{','}) + 1)
	}
	if k := v.Kind(); k != jsondoc.Array && k != jsondoc.Object {
		return int32(abi.StatusRefused)
	}
	n := v.Len()
	c.chargeUnits(int64(n))
	return int32(n)
}

// InputText implements abi.Host. The text is always UTF-8.
func (c *call) InputText(path, dst []byte) int32 {
	v, _, s := c.lookUpInput(importInputText, path)
	if s != abi.StatusOK {
		return int32(s)
	}
	if v.Kind() != jsondoc.String {
		return int32(abi.StatusRefused)
	}
	text := v.Inside()
	c.chargeBytes(len(text))
	if v.Escaped() {
		c.extra = v.AppendText(response.Reuse(c.extra))
		text = c.extra
	}
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	c.chargeBytes(min(len(text), len(dst)))
	copy(dst, text)
	return int32(len(text))
}
