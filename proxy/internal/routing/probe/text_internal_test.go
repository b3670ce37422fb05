package probe

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// metrics is what vLLM reports, shortened.
const metrics = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 12.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 3.0
vllm:num_requests_waiting{engine="1",model_name="a \"}\" b\\"} 4 1732622400000
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:num_requests_waiting_total 99
up 1
`

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, body, read string
		want             []routing.Measurement
	}{
		{"vLLM", metrics, "vllm:num_requests_waiting vllm:kv_cache_usage_perc", []routing.Measurement{{Name: "vllm:num_requests_waiting", Value: 7}, {Name: "vllm:kv_cache_usage_perc", Value: 0.25}}},
		{"without labels", metrics, "up", []routing.Measurement{{Name: "up", Value: 1}}},
		{"absent", metrics, "vllm:other up", []routing.Measurement{{Name: "up", Value: 1}}},
		{"a comment is no sample", "#up 1\n# up 1", "up", nil},
		{"spaces and CRLF", " up \t{a = \"b\"}\t5\r\n", "up", nil},
		{"space before the value", "up\t{} \n", "up", nil},
		{"CRLF", "up{a=\"b\"}\t5\r\nup 1\r\n", "up", []routing.Measurement{{Name: "up", Value: 6}}},
		{"no newline", "up 5", "up", []routing.Measurement{{Name: "up", Value: 5}}},
		{"exponents", "up 1e3\nup -2.5E-1", "up", []routing.Measurement{{Name: "up", Value: 999.75}}},
		{"not finite", "a NaN\nb +Inf\nc 1e308\nc 1e308\nup 1", "a b c up", []routing.Measurement{{Name: "up", Value: 1}}},
		{"malformed lines", "up\nup x\nup{\nup{a=\"b} 1\nup5 1\n{} 1\nup 2", "up", []routing.Measurement{{Name: "up", Value: 2}}},
		{"empty", "", "up", nil},
	} {
		if diff := cmp.Diff(c.want, parse([]byte(c.body), strings.Fields(c.read))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// FuzzParse checks that values are finite and of the requested metrics, in their order, and that a sample is found
// whatever precedes it and whatever its label contains.
func FuzzParse(f *testing.F) {
	f.Add([]byte(metrics), "Qwen/Qwen3-8B", 3.0)
	f.Add([]byte("up{a=\"\\\"} 1\nup NaN"), "\"}\\ {", -0.5)
	names := []string{"vllm:num_requests_waiting", "up", "own"}
	f.Fuzz(func(t *testing.T, body []byte, label string, value float64) {
		at := 0
		for _, m := range parse(body, names) {
			for at < len(names) && names[at] != m.Name {
				at++
			}
			if at == len(names) || math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
				t.Fatalf("%v", m)
			}
		}
		if bytes.Contains(body, []byte("own")) {
			return
		}
		label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "").Replace(label)
		body = fmt.Appendf(body, "\nown{l=\"%s\"} %s", label, strconv.FormatFloat(value, 'g', -1, 64))
		got := parse(body, names[2:])
		if finite := !math.IsNaN(value) && !math.IsInf(value, 0); finite != (len(got) == 1) || finite && got[0].Value != value {
			t.Errorf("got %v, want %v", got, value)
		}
	})
}
