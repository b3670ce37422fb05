package responses

import (
	"hash/maphash"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// callTable finds calls by their ids.
type callTable struct {
	byID map[uint64]int32 // hash of the id → the first call with it in list
	list []openCall
}

// openCall is a call whose output comes later. Calls with one id, as some clients number those of each turn anew, are a queue.
type openCall struct {
	item       int32
	next, last int32 // of the queue, -1: none; the head keeps last
	answered   bool
}

var callSeed = maphash.MakeSeed()

// reset empties the table and drops memory that only a very long conversation needs.
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
			return apierror.Invalid("", "input", "No tool output found for %s call %s.", callWord(it.kind), clientapi.Quotable(it.callID.Text()))
		}
	}
	return nil
}

// callWord is what OpenAI calls a call.
func callWord(k itemKind) string {
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

// slot is the key of an item's call id in the table, and whether there is one. Ids whose hashes are equal are told apart.
func (r *Request) slot(it *item) (key uint64, head int32, ok bool) {
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
	key, head, ok := r.slot(&r.items[i])
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
	key, head, ok := r.slot(it)
	if !ok {
		return apierror.Invalid("", "input", "No tool call found for tool call output with call_id %s.", clientapi.Quotable(it.callID.Text()))
	}
	c := &t.list[head]
	if c.answered && c.next >= 0 { // the queue goes on
		t.list[c.next].last = c.last
		head = c.next
		t.byID[key] = head
		c = &t.list[head]
	}
	if c.answered {
		return clientapi.InvalidValue(it.callID, clientapi.CodeInvalidValue, "'%s' is '%s', a call that has another output.", clientapi.Quotable(it.callID.Text()))
	}
	c.answered = true
	r.items[c.item].result = i
	return nil
}
