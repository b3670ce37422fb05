package cohere

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// TestManyVectorsFitTheBudget checks that the largest response of the API uses only a small share of a call's fuel
// budget, because the plugin does not parse the numbers.
func TestManyVectorsFitTheBudget(t *testing.T) {
	const texts, dimensions = 96, 1536
	vector := "[" + strings.Repeat("-0.012345678,", dimensions-1) + "0.1]"
	response := `{"embeddings":{"float":[` + strings.Repeat(vector+",", texts-1) + vector + `]}}`
	v := plugintest.Vector{
		Form: "embeddings", Target: "m", Status: 200, ContentType: "application/json", Response: []byte(response),
		Request: []byte(`{"model":"x","encoding_format":"base64","input":["a"` + strings.Repeat(`,"a"`, texts-1) + `]}`),
	}
	r := v.Run(suite.Bind(t, plugintest.Module), false)
	if r.Err != nil || strings.Count(r.Response, `"object":"embedding"`) != texts || r.Cost.Share > 0.25 {
		t.Errorf("%v, share %.2f: %.300s", r.Err, r.Cost.Share, r.Response)
	}
	t.Logf("%d bytes: %d units of fuel, %.1f%% of the budget", len(response), r.Cost.Reading, 100*r.Cost.Share)
}

func FuzzVectors(f *testing.F) {
	for _, s := range []string{
		`{"embeddings":{"float":[[1,2]]},"meta":{"billed_units":{"input_tokens":3}}}`, `{"embeddings":[[1],[2]]}`, `{"embeddings":{"float":[["x"]]}}`,
		`{"embeddings":{"float":[[1,2`, `{"id":"\ud83d","embeddings":{"float":[[1]],"float":[[2]]}}`,
	} {
		f.Add([]byte(s))
	}
	b := suite.Bind(f, plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte) {
		v := plugintest.Vector{Form: "embeddings", Target: "m", Status: 200, ContentType: "application/json", Request: []byte(`{"model":"x","input":"a"}`), Response: bytes.Clone(body)}
		if r := v.Run(b, false); strings.Contains(r.Response, "provider_response: panic") || !strings.HasPrefix(strings.TrimPrefix(r.Response, "provider_response: protocol error\n"), "200\n") && r.Err == nil {
			t.Errorf("%v: %s", r.Err, r.Response)
		}
	})
}
