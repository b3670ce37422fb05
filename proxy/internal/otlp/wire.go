package otlp

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// message appends the fields of a protobuf message. Traces and logs are written without the messages of the official
// package, which take ten times the CPU time; its messages judge the result in tests.
type message struct{ buf []byte }

// nested appends a message whose fields fill appends.
func (m *message) nested(field protowire.Number, fill func(m *message)) {
	m.buf = protowire.AppendTag(m.buf, field, protowire.BytesType)
	at := len(m.buf)
	fill(m)
	size := len(m.buf) - at
	var prefix [10]byte
	length := protowire.AppendVarint(prefix[:0], uint64(size))
	m.buf = append(m.buf, length...) // room for the length, which precedes the fields
	copy(m.buf[at+len(length):], m.buf[at:at+size])
	copy(m.buf[at:], length)
}

func (m *message) bytes(field protowire.Number, v []byte) {
	m.buf = protowire.AppendBytes(protowire.AppendTag(m.buf, field, protowire.BytesType), v)
}

// text appends a text. It is made valid UTF-8, because another one makes the whole message invalid.
func (m *message) text(field protowire.Number, v string) {
	m.buf = protowire.AppendString(protowire.AppendTag(m.buf, field, protowire.BytesType), strings.ToValidUTF8(v, "\uFFFD"))
}

func (m *message) varint(field protowire.Number, v uint64) {
	m.buf = protowire.AppendVarint(protowire.AppendTag(m.buf, field, protowire.VarintType), v)
}

func (m *message) fixed32(field protowire.Number, v uint32) {
	m.buf = protowire.AppendFixed32(protowire.AppendTag(m.buf, field, protowire.Fixed32Type), v)
}

func (m *message) fixed64(field protowire.Number, v uint64) {
	m.buf = protowire.AppendFixed64(protowire.AppendTag(m.buf, field, protowire.Fixed64Type), v)
}

// The fields of a KeyValue and of its AnyValue.
const (
	keyField, valueField                          protowire.Number = 1, 2
	stringValue, boolValue, intValue, doubleValue protowire.Number = 1, 2, 3, 4
)

// attributes appends attributes to a message, each as a KeyValue in the same field.
type attributes struct {
	*message
	field protowire.Number
}

func (a attributes) add(name string, value func(m *message)) {
	a.nested(a.field, func(m *message) {
		m.text(keyField, name)
		m.nested(valueField, value)
	})
}

// text adds a text, unless it is empty.
func (a attributes) text(name, v string) {
	if v != "" {
		a.add(name, func(m *message) { m.text(stringValue, v) })
	}
}

// number adds a number, unless it is 0.
func (a attributes) number(name string, v int64) {
	if v != 0 {
		a.count(name, v)
	}
}

func (a attributes) count(name string, v int64) {
	a.add(name, func(m *message) { m.varint(intValue, uint64(v)) })
}

func (a attributes) bool(name string, v bool) {
	a.add(name, func(m *message) { m.varint(boolValue, protowire.EncodeBool(v)) })
}

func (a attributes) float(name string, v float64) {
	a.add(name, func(m *message) { m.fixed64(doubleValue, math.Float64bits(v)) })
}

func (a attributes) seconds(name string, v time.Duration) { a.float(name, v.Seconds()) }

// amount adds an amount in US dollars.
func (a attributes) amount(name string, v cost.Nano) { a.float(name, v.Dollars()) }
