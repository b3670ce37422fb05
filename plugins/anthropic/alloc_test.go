//go:build !race

package anthropic

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestEventDoesNotAllocate(t *testing.T) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		b := suite.Bind(t, h, form)
		for name, data := range map[string][]byte{"text": textEvent, "tool": toolEvent, "thinking": thinkingEvent, "members": spacedEvent} {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				a := attempt(t, b)
				send(t, b, a, toolStart)
				if n := testing.AllocsPerRun(1000, func() { send(t, b, a, data) }); n != 0 {
					t.Errorf("%v allocations an event", n)
				}
			})
		}
	}
}
