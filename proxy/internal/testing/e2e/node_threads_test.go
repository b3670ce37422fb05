//go:build node

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestNodeThreads has the official Node client run threads and tool runners to their end, whether the provider holds
// threads, loses them, does not support them or does not know them.
func TestNodeThreads(t *testing.T) {
	m := newScriptedModel(t, "weather", `{"location":"Florence"}`, "40 C")
	behind := proxytest.Start(t, proxytest.Keys+m.Config("m")) // serves Gemini
	config := proxytest.Keys + m.Config("chat")
	hosts := map[string]*threadHost{}
	for name, refuses := range map[string]string{"holding": "", "forgetful": "thread_not_found", "unsupported": "thread_unsupported_request", "ignoring": "ignores", "first": "", "second": ""} {
		hosts[name] = newThreadHost(t, refuses)
		config += hosts[name].Config(name)
	}
	hosts["first"].failing = func(n int) bool { return n%2 == 0 }
	config += fmt.Sprintf("[providers.gemini]\nplugin = \"gemini\"\nbase_url = %q\nauth = { secret = %q }\n", behind.URL, proxytest.Key) +
		modelWithTargets("gemini", "gemini/m") + modelWithTargets("fallback", "first/m", "second/m", "chat/scripted")
	g := proxytest.Start(t, config)
	runNode(t, "threads.mjs", g)
	continued := 0
	for _, body := range hosts["holding"].sent {
		if strings.Contains(body, `"continue"`) {
			continued++
			if strings.Contains(body, "Florence?") {
				t.Errorf("a continued thread was sent whole: %s", body)
			}
		}
	}
	if want := 2 + 2*3; continued != want { // of two tool runners and two threads
		t.Errorf("%d requests continued a thread, want %d", continued, want)
	}
}
