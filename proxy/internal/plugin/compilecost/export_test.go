package compilecost

import (
	"math"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// Of returns the estimate for a module, without a limit on the work.
func Of(module []byte) (time.Duration, error) {
	m, err := wasm.Parse(module)
	if err != nil {
		return 0, err
	}
	e, d := New(m), m.Decoder()
	e.limit = math.Inf(1)
	for i := range m.Bodies {
		b := &m.Bodies[i]
		d.Reset(b)
		e.BeginFunction(int(d.Locals()), len(m.FuncType(b.Function).Results))
		for d.Next() {
			e.Note(d)
		}
		if err := d.Err(); err != nil {
			return 0, err
		}
		if err := e.EndFunction(b); err != nil {
			return 0, err
		}
	}
	return time.Duration(e.work), nil
}
