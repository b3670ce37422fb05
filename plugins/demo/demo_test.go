package demo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{Package: "plugins/all", Plugin: "demo"}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }

// request returns a client's request with a tool whose schema has n required properties.
func request(n int) []byte {
	var properties, required []string
	for i := range n {
		name := fmt.Sprintf("property_number_%d", i)
		properties = append(properties, fmt.Sprintf(`%q:{"type":"object","description":%q}`, name, strings.Repeat("x", 200)))
		required = append(required, fmt.Sprintf("%q", name))
	}
	return fmt.Appendf(nil, `{"model":"m","n":8,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function",
		"function":{"name":"f","parameters":{"type":"object","properties":{%s},"required":[%s]}}}],"tool_choice":"required"}`,
		strings.Join(properties, ","), strings.Join(required, ","))
}

func TestLargeSchemas(t *testing.T) {
	b := suite.Bind(t, plugintest.Module)
	for _, n := range []int{10, 1000, 10000} {
		v := plugintest.Vector{Target: "demo", Request: request(n), Status: 200}
		r := v.Run(b, true)
		if !strings.HasPrefix(r.Response, "200\n") || !strings.HasSuffix(r.Response, "data: [DONE]\n\n") {
			t.Errorf("%d properties: %.300s", n, r.Response)
		}
		t.Logf("%d properties, %d bytes: fuel %d", n, len(v.Request), r.Cost.Request)
	}
}

// FuzzRequest checks that the plugin responds with 200 or 400 to every request that the gateway accepts.
func FuzzRequest(f *testing.F) {
	for _, v := range suite.Vectors(f) {
		f.Add(v.Request)
	}
	b := suite.Bind(f, plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte) {
		if !plugintest.Accepted(body) {
			return
		}
		v := plugintest.Vector{Target: "demo", Request: body, Status: 200}
		for _, stream := range []bool{true, false} {
			r := v.Run(b, stream)
			if !strings.HasPrefix(r.Response, "200\n") && !strings.HasPrefix(r.Response, "400\n") {
				t.Fatalf("stream %v: %s", stream, r.Response)
			}
		}
	})
}
