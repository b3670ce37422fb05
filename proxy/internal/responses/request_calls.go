package responses

import (
	"hash/maphash"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// callTable finds calls by their IDs.
type callTable struct {
	byID map[uint64]int32 // hash of the ID → index in list of the head of the queue of calls with this ID
	list []openCall
}

// openCall is a call whose output comes later in the input. Calls with the same ID form a queue, because some clients
// restart their numbering in each turn.
type openCall struct {
	item       int32 // index of the call's item
	next, last int32 // indices in list of the next and last call of the queue, -1 if there is none; last is only valid in the head
	answered   bool
}

var callSeed = maphash.MakeSeed()

// reset empties the table, and frees its memory after a very long conversation.
func (t callTable) reset() callTable {
	const keep = 1 << 10
	if cap(t.list) > keep {
		return callTable{}
	}
	clear(t.byID)
	return callTable{byID: t.byID, list: t.list[:0]}
}

// pairCalls finds the output of each call.
func (r *Request) pairCalls() *apierror.Error {
	r.calls = r.calls.reset()
	for i := range r.items {
		switch it := &r.items[i]; {
		case it.kind.isCall():
			it.result = -1
			r.addCall(int32(i))
		case it.kind == itemOutput:
			if e := r.addOutput(int32(i)); e != nil {
				return e
			}
		}
	}
	for _, c := range r.calls.list {
		if !c.answered {
			it := &r.items[c.item]
			return apierror.Invalid("", "input", "No tool output found for %s call %s.", callLabel(it.kind), clientapi.Quotable(it.callID.Text()))
		}
	}
	return nil
}

// callLabel returns OpenAI's name for a kind of call in error messages.
func callLabel(k itemKind) string {
	switch k {
	case itemCustomCall:
		return "custom tool"
	case itemLocalShellCall:
		return "local shell"
	case itemShellCall:
		return "shell"
	case itemApplyPatchCall:
		return "apply patch"
	}
	return "function"
}

// findCall returns the key in the table for an item's call ID, and the head of the queue of calls with that ID. ok is
// false if there is none. Hash collisions are resolved by linear probing.
func (r *Request) findCall(it *item) (key uint64, head int32, ok bool) {
	r.scratch = it.callID.AppendText(r.scratch[:0])
	key = maphash.Bytes(callSeed, r.scratch)
	for {
		if head, ok = r.calls.byID[key]; !ok || r.items[r.calls.list[head].item].callID.SameText(it.callID) {
			return key, head, ok
		}
		key++
	}
}

func (r *Request) addCall(i int32) {
	t := &r.calls
	key, head, ok := r.findCall(&r.items[i])
	n := int32(len(t.list))
	t.list = append(t.list, openCall{item: i, next: -1, last: n})
	if !ok {
		if t.byID == nil {
			t.byID = make(map[uint64]int32)
		}
		t.byID[key] = n
		return
	}
	t.list[t.list[head].last].next = n
	t.list[head].last = n
}

func (r *Request) addOutput(i int32) *apierror.Error {
	t, it := &r.calls, &r.items[i]
	key, head, ok := r.findCall(it)
	if !ok {
		return apierror.Invalid("", "input", "No tool call found for tool call output with call_id %s.", clientapi.Quotable(it.callID.Text()))
	}
	c := &t.list[head]
	if c.answered && c.next >= 0 { // move on to the next call with this ID
		t.list[c.next].last = c.last
		head = c.next
		t.byID[key] = head
		c = &t.list[head]
	}
	if c.answered {
		return clientapi.InvalidValue(it.callID, clientapi.CodeInvalidValue, "'%s' is '%s', but this call already has an output.", clientapi.Quotable(it.callID.Text()))
	}
	c.answered = true
	r.items[c.item].result = i
	return nil
}
