//go:build !race

package gemini

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestEventDoesNotAllocate(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		b := suite.Bind(t, h, form)
		for name, data := range streamEvents {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				a := attempt(t, b)
				send(t, b, a, data)
				if n := testing.AllocsPerRun(1000, func() { send(t, b, a, data) }); n != 0 {
					t.Errorf("%v allocations an event", n)
				}
			})
		}
	}
}
