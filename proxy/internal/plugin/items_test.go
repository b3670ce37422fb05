package plugin_test

import (
	"errors"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Vectors and ranks are allowed only in responses to requests for them, and must not be empty.
//
// covers: C62
func TestRejectsInvalidItems(t *testing.T) {
	for name, c := range map[string]struct {
		report func(h abi.Host)
	}{
		"vector for chat": {func(h abi.Host) { h.Embedding(0, b("[1]")) }},
		"rank for chat":   {func(h abi.Host) { h.Rank(0, b("1")) }},
		"negative index":  {func(h abi.Host) { h.Embedding(-1, b("[1]")) }},
		"no vector":       {func(h abi.Host) { h.Embedding(0, nil) }},
		"no score":        {func(h abi.Host) { h.Rank(0, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			bound := bindNative(t, native{
				request:  func(h abi.Host, _ []byte) int32 { h.RequestPath(b("/v1")); return 0 },
				response: func(h abi.Host, _ int32, _ []byte) int32 { c.report(h); return 0 },
			}, plugin.BindingConfig{Paths: []string{"/v1"}})
			a := newAttempt(t, body)
			if err := bound.Request(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			err := bound.Response(t.Context(), a, 200, b(`{}`))
			failed, broken := errors.AsType[*plugin.CallError](err)
			if _, answer := errors.AsType[*apierror.Error](err); answer || !broken || failed.Kind != plugin.KindProtocol {
				t.Errorf("error %v, want a protocol error", err)
			}
		})
	}
}
