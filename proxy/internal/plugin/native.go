package plugin

import (
	"fmt"
	"runtime/debug"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// nativeGuest is a guest that is compiled into this program. It has no fuel limit and no memory of its own. All other
// rules apply.
type nativeGuest struct {
	guest Guest
	text  []byte // scratch: the held part of a text and the piece that follows it
}

// panicError is a panic of a native guest. Only tests run native guests, so its text may contain anything.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

func (g *nativeGuest) run(in *instance, _ int64) (status int32, _ int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	c, b := &in.call, in.call.binding.index
	switch c.export {
	case exportConfigure:
		status = g.guest.Configure(b, c.first)
	case exportForms:
		status = g.guest.Forms(b)
	case exportSummary:
		status = g.guest.SummaryParts(b)
	case exportRequest:
		status = g.guest.Request(b, c.first)
	case exportResponse:
		status = g.guest.Response(b, c.number, c.first)
	case exportEvent:
		status = g.guest.Event(b, abi.EventKind(c.number), c.first, c.second)
	case exportEnd:
		status = g.guest.End(b)
	case exportList:
		status = g.guest.List(b, c.first)
	case exportModels:
		status = g.guest.Models(b, c.number, c.first)
	case exportReads:
		status = g.guest.Reads(b)
	case exportChoose:
		status = g.guest.Choose(b, c.first)
	case exportFilterReads:
		status = g.guest.FilterParts(b)
	case exportFilterRequest:
		status = g.guest.FilterRequest(b, c.first)
	case exportFilterText:
		g.text = append(append(response.Reuse(g.text), c.first...), c.second...)
		status = g.guest.FilterText(b, abi.What(c.number), c.choice, c.flags, int32(len(c.first)), g.text)
	}
	return status, 0, nil
}

func (g *nativeGuest) snapshot() (*image, error) { return nil, engine.ErrNoImage }
func (g *nativeGuest) restore(*image) error      { return engine.ErrNoImage }
func (g *nativeGuest) revive(*image) error       { return engine.ErrNoImage }
func (g *nativeGuest) collect(int64) error       { return nil }
func (g *nativeGuest) memory() int               { return 0 }
func (g *nativeGuest) close()                    {}

// nativeExports returns the exports of a native guest.
func nativeExports(g Guest) (set exportSet, err error) {
	for e := range exports {
		set[e] = g.Has(exports[e].name)
	}
	return set, set.check()
}
