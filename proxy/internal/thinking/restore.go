package thinking

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Restore appends to dst the conversation of doc, a canonical request of a client, with the signed reasoning that its messages
// lack: from their tokens, or from the memory, where that came from a provider that usable accepts. Tokens are removed in any case: no provider
// knows them. The document that is appended has at most max bytes; if it had more, what belongs to the oldest messages
// is left out. It reports false, and appends nothing, where nothing changes.
func (m *Memory) Restore(dst []byte, doc *jsondoc.Doc, client string, usable func(provider string) bool, max int) ([]byte, bool) {
	r := restoration{memory: m, client: client, usable: usable}
	for message := doc.Root().Get("messages").First(); message.Exists(); message = message.Next() {
		if calls := message.Get("tool_calls"); calls.Kind() == jsondoc.Array {
			r.restore(message, calls)
		}
	}
	if len(r.edits) == 0 {
		return dst, false
	}
	body := doc.Root().Raw()
	r.fit(len(body), max)
	at, base := 0, doc.Root().Offset()
	for i := range r.edits {
		e := &r.edits[i]
		dst = append(append(dst, body[at:e.from-base]...), e.insert...)
		at = e.to - base
	}
	return append(dst, body[at:]...), true
}

// restoration is one use of Restore.
type restoration struct {
	memory *Memory
	client string
	usable func(provider string) bool
	edits  []edit              // in the order of the document
	used   map[*thought]string // by the call that got it: a client may send the calls of a response as several messages
	doc    jsondoc.Doc         // scratch: a token
	id     []byte              // scratch
	name   []byte              // scratch
}

// edit replaces a range of the document.
type edit struct {
	from, to int
	insert   []byte
}

// fit drops the insertions of the oldest messages until the document fits.
func (r *restoration) fit(size, max int) {
	for i := range r.edits {
		size += len(r.edits[i].insert) - (r.edits[i].to - r.edits[i].from)
	}
	for i := range r.edits {
		e := &r.edits[i]
		if size <= max {
			return
		}
		if len(e.insert) > 0 {
			size += e.to - e.from - len(e.insert)
			e.insert, e.to = nil, e.from
		}
	}
}

// restore finds what one message lacks.
func (r *restoration) restore(message, calls jsondoc.Value) {
	first := len(r.edits)
	details := message.Get("reasoning_details")
	lacks := !signed(details) && !signed(message.Get("thinking_blocks"))
	var found []byte
	for call := calls.First(); call.Exists(); call = call.Next() {
		extra := call.Get(extraContent)
		google := extra.Get("google")
		token := google.Get("thought_signature")
		if !isToken(token.Inside()) {
			continue
		}
		if lacks {
			if entries := decodeToken(token.Inside(), &r.doc); len(entries) > 0 {
				if len(found) > 0 {
					found = append(found, ',')
				}
				found = append(found, entries...)
			}
		}
		r.remove(call, extra, google, token)
	}
	if lacks && len(found) == 0 {
		found = r.recall(message, calls)
	}
	if len(found) > 0 {
		e := edit{from: details.Offset(), to: details.Offset() + len(details.Raw())}
		if details.Exists() {
			e.insert = slices.Concat([]byte("["), found, []byte("]"))
		} else {
			e.from = message.Offset() + 1
			e.to = e.from
			e.insert = slices.Concat([]byte(`"reasoning_details":[`), found, []byte("],"))
		}
		r.edits = append(r.edits, e)
	}
	slices.SortFunc(r.edits[first:], func(a, b edit) int { return cmp.Compare(a.from, b.from) })
}

// signed reports whether reasoning_details, or thinking_blocks, hold what a provider has signed.
func signed(list jsondoc.Value) bool {
	if list.Kind() != jsondoc.Array {
		return false
	}
	for e := list.First(); e.Exists(); e = e.Next() {
		if len(e.Get("signature").Inside()) > 0 || len(e.Get("data").Inside()) > 0 {
			return true
		}
	}
	return false
}

// recall looks the calls of a message up in the memory. It returns the entries of reasoning_details without the brackets around
// them, and gives calls the extra_content that they lack.
func (r *restoration) recall(message, calls jsondoc.Value) (found []byte) {
	reasoning := message.Get("reasoning_content").AppendText(nil)
	for call := calls.First(); call.Exists(); call = call.Next() {
		callee := call.Get("function")
		if !callee.Exists() {
			callee = call.Get("custom")
		}
		r.id = jsondoc.AppendEscaped(r.id[:0], call.Get("id").AppendText(nil))
		r.name = jsondoc.AppendEscaped(r.name[:0], callee.Get("name").AppendText(nil))
		key := callKey(r.client, r.id, r.name)
		t, n := r.memory.get(key, r.usable, reasoning)
		if t == nil {
			continue
		}
		if extra := t.extras[n]; len(extra) > 0 && !call.Get(extraContent).Exists() {
			at := call.Offset() + 1
			r.edits = append(r.edits, edit{from: at, to: at, insert: slices.Concat([]byte(`"`+extraContent+`":`), extra, []byte(","))})
		}
		if r.used == nil {
			r.used = make(map[*thought]string)
		}
		if first, used := r.used[t]; len(t.details) > 0 && (!used || first == key) {
			r.used[t] = key
			if len(found) > 0 {
				found = append(found, ',')
			}
			found = append(found, bytes.TrimSpace(t.details[1:len(t.details)-1])...)
		}
	}
	return found
}

// remove removes the last of the values, each the value of a member of the one before it, and with it what it leaves empty.
func (r *restoration) remove(path ...jsondoc.Value) {
	last := len(path) - 1
	for last > 1 && !path[last-1].First().Next().Exists() {
		last--
	}
	v := path[last]
	e := edit{from: v.Name().Offset(), to: v.Offset() + len(v.Raw())}
	if next := v.Next(); next.Exists() {
		e.to = next.Name().Offset()
	} else {
		var before jsondoc.Value
		for s := path[last-1].First(); s.Offset() != v.Offset(); s = s.Next() {
			before = s
		}
		if before.Exists() {
			e.from = before.Offset() + len(before.Raw())
		}
	}
	r.edits = append(r.edits, e)
}
