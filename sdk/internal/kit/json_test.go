package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// The fuel of package json is measured here, in a test that links the engine anyway, to keep the engine out of its own
// tests.

var jsonGuest = plugintest.Suite{Package: "sdk/json/testdata/guest"}

// Documents for the benchmarks of package json.
const jsonEvent = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello, how are you"}     }`

func jsonConversation(n int) string {
	const turn = `{"role":"user","content":"The quick brown fox jumps over the lazy dog, and then it \"rests\" for a while under the tree.\n"},`
	return `{"model":"m","messages":[` + strings.TrimSuffix(strings.Repeat(turn, n/len(turn)+1), ",") + `]}`
}

// measure returns a function that runs the guest, which reads the document a number of times, and returns the fuel
// used.
func measure(tb testing.TB, document, how string) func(times int) (fuel int64) {
	tb.Helper()
	b := jsonGuest.Bind(tb, plugintest.Module)
	return func(times int) int64 {
		v := plugintest.Vector{
			Target: "m", Status: 200, Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`),
			Options: fmt.Appendf(nil, `{"times":%d,%q:true,"document":%s}`, times, how, document),
		}
		r := v.Run(b, false)
		if !strings.HasPrefix(r.Response, "200\n") {
			tb.Fatal(r.Response)
		}
		return r.Cost.Request
	}
}

// fuelOf returns the fuel of reading the document once, without the fuel of the call around it.
func fuelOf(run func(times int) int64, times int) float64 {
	return float64(run(times)-run(0)) / float64(times)
}

// Documents that Members reads. A long last member follows the others, because in the middle of a body there are bytes
// after them, too.
var (
	messageDocument = `{"role":"user","content":"The quick brown fox jumps over the lazy dog, and then?","name":"` + strings.Repeat("x", 64) + `"}`
	callDocument    = `{"role":"call_1","content":"function","function":{"name":"jump","arguments":"{\"over\":\"dog\"}"},"name":"` + strings.Repeat("x", 64) + `"}`
)

// TestFuelOfReadingJSON sets its bounds 10% above the measured values, to allow for other versions of the compiler.
func TestFuelOfReadingJSON(t *testing.T) {
	if fuel := fuelOf(measure(t, jsonEvent, "event"), 1000); fuel > 290 {
		t.Errorf("reading an event takes %.0f units of fuel", fuel)
	}
	if fuel := fuelOf(measure(t, messageDocument, "members"), 1000); fuel > 139 {
		t.Errorf("reading a message takes %.0f units of fuel", fuel)
	}
	body := jsonConversation(100 << 10)
	if fuel := fuelOf(measure(t, body, "whole"), 10) / float64(len(body)); fuel > 0.5 {
		t.Errorf("reading a body takes %.2f units of fuel per byte", fuel)
	}
}

// BenchmarkGuestReadsJSON runs json.BenchmarkReadEvent and BenchmarkReadBody in a module, with fuel.
func BenchmarkGuestReadsJSON(b *testing.B) {
	for _, test := range []struct {
		name, document string
		how            string
		times          int
	}{
		{"event", jsonEvent, "event", 1000},
		{"body 100KB", jsonConversation(100 << 10), "whole", 10},
		{"message", messageDocument, "members", 1000},
		{"tool call", callDocument, "members", 1000},
	} {
		b.Run(test.name, func(b *testing.B) {
			run := measure(b, test.document, test.how)
			for b.Loop() {
				run(test.times)
			}
			b.ReportMetric(fuelOf(run, test.times), "fuel/document")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(test.times), "ns/document")
		})
	}
}
