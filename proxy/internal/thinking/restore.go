package thinking

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Restore appends doc, a client's canonical request, to dst and adds the signed reasoning that its messages lack: from
// their tokens, or from the memory if usable accepts the provider that it came from. It removes all tokens, which
// providers do not understand. If the result would exceed max bytes, the additions to the oldest messages are omitted.
// If nothing changes, Restore appends nothing and reports false.
func (m *Memory) Restore(dst []byte, doc *jsondoc.Doc, client string, usable func(provider string) bool, max int) ([]byte, bool) {
	r := restoration{memory: m, client: client, usable: usable}
	for message := doc.Root().Get("messages").First(); message.Exists(); message = message.Next() {
		if calls := message.Get("tool_calls"); calls.Kind() == jsondoc.Array {
			r.restoreMessage(message, calls)
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

// restoration is the state of one call of Restore.
type restoration struct {
	memory *Memory
	client string
	usable func(provider string) bool
	edits  []edit              // in document order
	used   map[*thought]string // key of the call that got it; a client may split a response's calls into messages
	doc    jsondoc.Doc         // scratch: the entries in a token
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

// restoreMessage records the edits for one message.
func (r *restoration) restoreMessage(message, calls jsondoc.Value) {
	first := len(r.edits)
	details := message.Get("reasoning_details")
	needsDetails := !signed(details) && !signed(message.Get("thinking_blocks"))
	var found []byte
	for call := calls.First(); call.Exists(); call = call.Next() {
		extra := call.Get(extraContent)
		google := extra.Get("google")
		token := google.Get("thought_signature")
		if !isToken(token.Inside()) {
			continue
		}
		if needsDetails {
			if entries := decodeToken(token.Inside(), &r.doc); len(entries) > 0 {
				found = appendEntries(found, entries)
			}
		}
		r.removeMember(call, extra, google, token)
	}
	if needsDetails && len(found) == 0 {
		found = r.recall(message, calls)
	}
	changed := len(found) > 0
	if !changed && details.Kind() == jsondoc.Array {
		found = bytes.TrimSpace(details.Raw()[1 : len(details.Raw())-1])
	}
	if bytes.Contains(found, carriedMember) {
		found, changed = r.restoreExtras(message, calls, found), true
	}
	switch {
	case !changed:
	case len(found) == 0:
		if details.Exists() {
			r.removeMember(message, details)
		}
	default:
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

// signed reports whether any entry of reasoning_details or thinking_blocks is signed or encrypted.
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

// recall looks up the calls of a message in the memory. It returns the entries for reasoning_details, without the
// surrounding brackets. If a client splits the calls of a response into messages, the first one gets the reasoning, and
// the others get the entries of their calls.
func (r *restoration) recall(message, calls jsondoc.Value) (found []byte) {
	reasoning := message.Get("reasoning_content").AppendText(nil)
	var inMessage []*thought
	for call := calls.First(); call.Exists(); call = call.Next() {
		tool := call.Get("function")
		if !tool.Exists() {
			tool = call.Get("custom")
		}
		r.id = jsondoc.AppendEscaped(r.id[:0], call.Get("id").AppendText(nil))
		r.name = jsondoc.AppendEscaped(r.name[:0], tool.Get("name").AppendText(nil))
		key := callKey(r.client, r.id, r.name)
		t := r.memory.get(key, r.usable, reasoning)
		if t == nil || slices.Contains(inMessage, t) {
			continue
		}
		if r.used == nil {
			r.used = make(map[*thought]string)
		}
		if first, used := r.used[t]; !used || first == key {
			r.used[t] = key
			inMessage = append(inMessage, t)
			found = appendEntries(found, t.details[1:len(t.details)-1])
		} else if r.doc.Parse(t.details, jsondoc.Limits{}) == nil {
			for e := r.doc.Root().First(); e.Exists(); e = e.Next() {
				if e.Get("id").SameText(call.Get("id")) {
					found = appendEntries(found, e.Raw())
				}
			}
		}
	}
	return found
}

// appendEntries appends elements of a JSON array.
func appendEntries(dst, entries []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, bytes.TrimSpace(entries)...)
}

// removeMember removes the last value of path, in which each value is a member of the one before it. Objects that
// become empty are removed as well.
func (r *restoration) removeMember(path ...jsondoc.Value) {
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
