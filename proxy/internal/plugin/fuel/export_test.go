package fuel

import (
	"math"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// Work returns the rewritten form of a module and the estimate of what compiling it takes, whatever that is.
func Work(module []byte) (out []byte, estimate time.Duration, err error) {
	m, err := wasm.Parse(module)
	if err != nil {
		return nil, 0, err
	}
	r := rewriter{m: m, o: Options{}.withDefaults(), limit: math.Inf(1)}
	err = r.rewrite()
	return r.w.Out, time.Duration(r.work), err
}
