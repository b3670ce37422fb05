package plugin

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// requestTree predicts the calls of provider_request of a binding. The call is a pure function of the summary and of
// the results of its imports, so after the same summary and the same results, a plugin calls the same import with the
// same arguments as before. The host runs these imports by itself, against the current request, and calls the guest
// only if a result is new. That takes a quarter of the time of an ordinary call.
//
// The tree belongs to a binding whose summary has nothing that differs in every request (abi.SummaryParts). It contains
// arguments and results of earlier requests, but a request gets only what it has looked up itself.
//
// Concurrency: nodes do not change, except that edges are added under mu. Readers take no lock.
type requestTree struct {
	roots atomic.Pointer[map[string]*importNode] // first import, by the summary

	unpredicted atomic.Int32 // recorded calls that could not be predicted, until one could

	mu    sync.Mutex
	nodes atomic.Int32 // changes under mu
}

// importNode is a call of an import, or what follows the last one.
type importNode struct {
	index int      // in abi.Imports, or one of the following
	stack []uint64 // parameters
	texts [][]byte // the strings among them, in order
	room  int      // capacity of the buffer for the result
	edges atomic.Pointer[[]importEdge]
}

// Values of importNode.index that are not the index of an import.
const (
	endOfCall     = -1 // the guest returns status 0
	unpredictable = -2 // the guest begins with an import that cannot be replayed: it reads all of the body
)

// importEdge leads from a result of an import to what follows.
type importEdge struct {
	result uint64
	output []byte // content of the buffer
	node   *importNode
}

// Limits of a tree. What is beyond them is not predicted.
const (
	maxSummaries  = 64
	maxNodes      = 1024
	maxResults    = 16  // of one import
	maxPredicted  = 512 // bytes of the arguments, or of the result, of one import
	maxParameters = 12

	// A binding whose first calls cannot be predicted, such as of a plugin that reads all of the body, records no more.
	maxUnpredicted = 64
)

// replayable has the imports that are run without a guest: those that read the client's body and describe the request.
// All others, such as those of a plugin that responds itself, are left to the guest.
var replayable = func() (set [len(abi.Imports)]bool) {
	for _, i := range [...]int{
		importHostMinor, importBodyGet, importBodyCount, importBodySet, importBodyDelete, importBodyRename, importBodyReplace, importRequestPath, importRequestHeader,
		importToolAlias, importAnswer, importWarn, importStateGet, importStateSet,
	} {
		set[i] = true
	}
	return set
}()

// newRequestTree returns a tree for a binding, or nil if its calls cannot be predicted.
func newRequestTree(p *Plugin, parts abi.SummaryParts) *requestTree {
	if !p.host.options.Replay || p.module == nil || !p.exports[exportSummary] || parts != 0 {
		return nil
	}
	t := new(requestTree)
	t.roots.Store(new(map[string]*importNode))
	return t
}

// replay makes a call of provider_request without a guest. If it returns false, the call has had no effect, and the guest
// has to be called.
func (p *Plugin) replay(inv *invocation) (ok bool) {
	tree := inv.binding.requests
	if len(*tree.roots.Load()) == 0 {
		return false
	}
	r, _ := p.replays.Get().(*replayer)
	if r == nil {
		r = &replayer{call: call{plugin: p}}
		r.args.call = &r.call
	}
	defer p.replays.Put(r)
	c := &r.call
	defer c.end()
	// A panic of the gateway will recur in the guest's call, which reports it.
	defer rescue.Recover(func(*rescue.Error) { ok = false })
	c.begin(inv)
	for n := tree.root(c.first); n != nil && n.index != unpredictable; n = n.follow(r.run(n)) {
		if c.err != nil {
			return false
		}
		if n.index == endOfCall {
			c.phase = 0
			p.counts.calls.Add(1)
			return c.commit() == nil
		}
	}
	return false
}

// replayer is the host's side of a call without a guest.
type replayer struct {
	call  call
	args  args
	cells [maxParameters]uint64
	room  [maxPredicted]byte
}

// run runs the import of a node, and returns its result and what it has written to the buffer.
func (r *replayer) run(n *importNode) (result uint64, output []byte) {
	copy(r.cells[:], n.stack)
	r.args.stack, r.args.next, r.args.texts, r.args.room = r.cells[:], 0, n.texts, r.room[:n.room]
	r.call.running = n.index
	decodersByIndex[n.index](&r.args)
	return r.cells[0], written(r.cells[0], r.room[:n.room])
}

// written returns the part of the buffer that an import with this result has written.
func written(result uint64, buffer []byte) []byte {
	return buffer[:min(max(int(int32(uint32(result))), 0), len(buffer))]
}

func (t *requestTree) root(summary []byte) *importNode { return (*t.roots.Load())[string(summary)] }

// follow returns the node after a result, nil if it is not known.
func (n *importNode) follow(result uint64, output []byte) *importNode {
	edges := n.edges.Load()
	if edges == nil {
		return nil
	}
	for i := range *edges {
		if e := &(*edges)[i]; e.result == result && bytes.Equal(e.output, output) {
			return e.node
		}
	}
	return nil
}

// importRecorder records the imports of a guest's call for its binding's tree.
type importRecorder struct {
	tree   *requestTree // nil if the call is not recorded
	steps  []importStep
	failed bool // the call cannot be predicted from the last step on
}

type importStep struct {
	node   importNode
	result uint64
	output []byte
}

// begin begins to record a call with a summary, unless the tree is full or the call is unlikely to be predictable.
func (r *importRecorder) begin(t *requestTree, summary []byte) {
	r.steps, r.tree, r.failed = r.steps[:0], nil, false
	if t == nil || t.nodes.Load() >= maxNodes || t.unpredicted.Load() >= maxUnpredicted {
		return
	}
	if n := t.root(summary); n == nil || n.index != unpredictable {
		r.tree = t
	}
}

func (r *importRecorder) recording() bool { return r.tree != nil && !r.failed }

// startImport records an import with its parameters. The strings among them follow in addText.
func (r *importRecorder) startImport(index int, stack []uint64) {
	if !replayable[index] || len(stack) > maxParameters || len(r.steps) >= maxNodes {
		r.failed = true
		return
	}
	r.steps = append(r.steps, importStep{node: importNode{index: index, stack: slices.Clone(stack)}})
}

// addText records a parameter.
func (r *importRecorder) addText(p []byte) {
	s := &r.steps[len(r.steps)-1].node
	s.texts = append(s.texts, bytes.Clone(p[:min(len(p), maxPredicted)]))
	r.failed = r.failed || len(p) > maxPredicted
}

// endImport records the result of the import, and what it has written to the buffer.
func (r *importRecorder) endImport(result uint64, buffer []byte) {
	output := written(result, buffer)
	if len(output) > maxPredicted {
		r.steps, r.failed = r.steps[:len(r.steps)-1], true
		return
	}
	s := &r.steps[len(r.steps)-1]
	// An import sees no more of a larger buffer, since a result that does not fit is not recorded.
	s.node.room = min(len(buffer), maxPredicted)
	s.result, s.output = result, bytes.Clone(output)
}

// commit adds the recorded call to the tree. summary is the call's input.
func (r *importRecorder) commit(summary []byte) {
	switch {
	case r.tree == nil:
	case r.failed && len(r.steps) > 0:
		r.tree.unpredicted.Add(1)
	default:
		r.tree.unpredicted.Store(0)
		r.tree.add(summary, r.steps, r.failed)
	}
	clear(r.steps)
	r.steps, r.tree = r.steps[:0], nil
}

// add adds a call, or marks calls with this summary as unpredictable.
func (t *requestTree) add(summary []byte, steps []importStep, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	roots := *t.roots.Load()
	n := roots[string(summary)]
	if n == nil {
		if len(roots) >= maxSummaries || !t.hasRoom(steps) {
			return
		}
		if roots = maps.Clone(roots); roots == nil {
			roots = map[string]*importNode{}
		}
		if n = t.chain(steps); failed {
			n = &importNode{index: unpredictable}
		}
		roots[string(summary)] = n
		t.roots.Store(&roots)
		return
	}
	for i := range steps {
		s := &steps[i]
		if n.index != s.node.index {
			return // the plugin breaks its promise
		}
		next := n.follow(s.result, s.output)
		if next == nil {
			var edges []importEdge
			if old := n.edges.Load(); old != nil {
				edges = slices.Clip(*old)
			}
			if len(edges) >= maxResults || !t.hasRoom(steps[i:]) {
				return
			}
			edges = append(edges, importEdge{s.result, s.output, t.chain(steps[i+1:])})
			n.edges.Store(&edges)
			return
		}
		n = next
	}
}

// chain returns the nodes of the steps and the end.
func (t *requestTree) chain(steps []importStep) *importNode {
	t.nodes.Add(int32(len(steps) + 1))
	next := &importNode{index: endOfCall}
	for i := len(steps) - 1; i >= 0; i-- {
		s := &steps[i]
		n := &importNode{index: s.node.index, stack: s.node.stack, texts: s.node.texts, room: s.node.room}
		n.edges.Store(&[]importEdge{{s.result, s.output, next}})
		next = n
	}
	return next
}

func (t *requestTree) hasRoom(steps []importStep) bool {
	return int(t.nodes.Load())+len(steps) < maxNodes
}
