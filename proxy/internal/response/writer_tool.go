package response

import (
	"crypto/sha256"
	"encoding/base32"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// openTool takes the beginning of a tool call. Arguments, or the end, that stand directly behind it go into the same
// chunk, so that a call that arrives whole leaves whole. It returns how many events that were.
func (m *Writer) openTool(b *Batch, i int, c *choice) (joined int) {
	ev := &b.Events[i]
	t := c.tool(ev.Key)
	if t.open {
		return 0
	}
	t.open, t.index = true, c.opened
	c.opened++
	if id := b.Bytes(ev.A); len(id) > 0 {
		t.id = jsondoc.AppendEscaped(t.id[:0], id)
	} else {
		t.id = inventID(t.id[:0], m.o.ID, c.index, t.index)
	}
	name := b.Bytes(ev.B)
	if m.o.Aliases != nil {
		if real := m.o.Aliases(name); len(real) > 0 {
			name = real
		}
	}
	t.name = jsondoc.AppendEscaped(t.name[:0], name)
	m.held += len(t.id) + len(t.name)
	if !m.o.Stream {
		return 0
	}

	var args []byte
	if i+1 < len(b.Events) && b.Events[i+1].Choice == ev.Choice && b.Events[i+1].Key == ev.Key {
		next, p := &b.Events[i+1], &m.pieces[i+1]
		switch next.Kind {
		case EventToolArguments:
			args, joined = m.take(&t.args, next, p, m.bytesOf(b, p)), 1
		case EventToolEnd:
			t.ended, t.args.some = true, true
			args, joined = emptyObject, 1
		}
	}
	m.openChoice(c, true)
	m.gather(b, i+joined, c)
	m.toolChunk(c, t, args)
	return joined
}

// emptyObject is the arguments of a call without arguments.
var emptyObject = []byte("{}")

// argue gives the client a piece of a tool call's arguments.
func (m *Writer) argue(b *Batch, i int, c *choice, t *tool, s []byte) {
	if !m.o.Stream {
		t.args.all = append(t.args.all, s...)
		m.held += len(s)
		return
	}
	m.gather(b, i, c)
	m.argumentsChunk(c, t, s)
}

// endTool takes the end of a tool call: a call without arguments gets its default, or the empty object.
func (m *Writer) endTool(b *Batch, i int, c *choice, t *tool) {
	t.ended = true
	s := m.rest(&t.args)
	if !t.args.some {
		t.args.some = true
		s = emptyObject
	}
	if len(s) > 0 {
		m.argue(b, i, c, t, s)
	}
}

// inventID appends an id for a tool call to which the provider gave none. It follows from the answer's id and the call's
// place, so that it is the same whenever it is asked for.
func inventID(dst []byte, base string, choice, index int32) []byte {
	sum := sha256.Sum256(append([]byte(base), 0, byte(choice), byte(index), byte(index>>8)))
	const bytesOfID = 15
	dst = append(dst, "call_"...)
	return idAlphabet.AppendEncode(dst, sum[:bytesOfID])
}

var idAlphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
