package response

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// extra takes an extra member of anything but the answer.
func (m *Writer) extra(b *Batch, i int) {
	ev := &b.Events[i]
	switch abi.Scope(ev.Code) {
	case abi.ScopeAnswer:
	case abi.ScopeUsage:
		to, name := m.usageX.of(b.Bytes(ev.A))
		m.join(to, name, m.bytesOf(b, &m.pieces[i]))
	default:
		if c := m.at(ev.Choice); c.joined != m.epoch {
			m.choiceExtra(b, i, c)
		}
	}
}

// gather takes the extra members that stand behind event i and before the next event of the choice: they belong into the
// chunk that is about to be rendered.
func (m *Writer) gather(b *Batch, i int, c *choice) {
	if i < 0 {
		return
	}
	c.joined = m.epoch
	for i++; i < len(b.Events); i++ {
		ev := &b.Events[i]
		switch ev.Kind {
		case EventStart, EventUsage, EventDone:
		case EventExtra:
			if scope := abi.Scope(ev.Code); ev.Choice == c.index && scope != abi.ScopeAnswer && scope != abi.ScopeUsage {
				m.choiceExtra(b, i, c)
			}
		default:
			if ev.Choice == c.index {
				return
			}
		}
	}
}

// choiceExtra takes an extra member of a choice, its message or one of its tool calls.
func (m *Writer) choiceExtra(b *Batch, i int, c *choice) {
	ev := &b.Events[i]
	to := &c.choiceX
	switch abi.Scope(ev.Code) {
	case abi.ScopeMessage:
		to = &c.messageX
	case abi.ScopeTool:
		t := c.tool(ev.Key)
		if t == nil || !t.open {
			m.dropped++
			return
		}
		to = &t.extras
	}
	m.join(to, b.Bytes(ev.A), m.bytesOf(b, &m.pieces[i]))
}

// answerExtra takes an extra member of the answer. In a stream a short scalar is a fact of the answer, such as the
// fingerprint of the system, and stands in every chunk from then on; anything else is news and stands in one.
func (m *Writer) answerExtra(raw, value []byte) {
	from := len(m.scratch)
	m.scratch = jsondoc.AppendEscaped(m.scratch, raw)
	defer func() { m.scratch = m.scratch[:from] }()
	name := m.scratch[from:]
	if !m.o.Stream || !scalar(value) || len(value) > maxSticky {
		if n, ok := m.sticky.remove(name); ok {
			m.held -= n
			m.prefix = m.prefix[:0]
		}
		m.hold(m.once.add(nil, name, value))
		return
	}
	if e := m.sticky.get(name); e != nil && bytes.Equal(e.value, value) {
		return
	}
	n, _ := m.once.remove(name)
	m.held -= n
	m.hold(m.sticky.add(nil, name, value))
	m.prefix = m.prefix[:0]
}

// join adds a member to one of the objects of the answer.
func (m *Writer) join(to *members, name, value []byte) {
	from := len(m.scratch)
	m.scratch = jsondoc.AppendEscaped(m.scratch, name)
	m.hold(to.add(nil, m.scratch[from:], value))
	m.scratch = m.scratch[:from]
}

// hold takes a member that was added into the account, or counts one for which there was no room.
func (m *Writer) hold(size int, ok bool) {
	m.held += size
	if !ok {
		m.dropped++
	}
}

// let takes out of the account what an object's extra members held, once they are rendered.
func (m *Writer) let(from *members) {
	m.held -= from.size
	from.reset()
}
