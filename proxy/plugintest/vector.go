package plugintest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// What tests share with the commands of a plugin's author.
type (
	// Use is how a configuration would use the plugin.
	Use = plugindev.Use
	// Event is one event of an upstream's stream.
	Event = plugindev.Event
	// Header is a header of a request; its name is in lower case.
	Header = plugindev.Header
	// ListRequest is the request for a page of an upstream's model list. Without a path there is no list.
	ListRequest = plugindev.ListRequest
	// Cost is the fuel that a vector's calls took; 0 for a native plugin.
	Cost = plugindev.Cost
)

// Vector is a client's request and an upstream's answer to it.
type Vector plugindev.Vector

// Result is the outcome of a vector. Where the plugin itself failed, Response begins with a line that says in which call
// and how, and goes on with what the client would receive.
type Result plugindev.Result

// Load reads the vectors below a folder, in the order of their names.
func Load(dir string) ([]*Vector, error) {
	loaded, err := plugindev.LoadVectors(dir)
	vectors := make([]*Vector, len(loaded))
	for i, v := range loaded {
		vectors[i] = (*Vector)(v)
	}
	return vectors, err
}

// SplitEvents returns the events of a stream, as far as it can be read.
func SplitEvents(contentType string, body []byte) []Event {
	return plugindev.SplitEvents(contentType, body)
}

// FlagNames are the names of the flags in a summary, in the order of their bits in package sdk.
func FlagNames() (names []string) {
	for bit := range 32 {
		names = append(names, clientapi.Flags(1<<bit).Names()...)
	}
	return names
}

// Run runs the vector for a client that wants a stream with its usage, or a non-streaming response, whatever the request
// asks for. What the plugin learns of the request follows from its body.
func (v *Vector) Run(b *Binding, stream bool) Result { return v.RunFor(b, "", nil, stream) }

// RunFor is Run for a client of another API than that of the vector's request: form, whose request asks for the same.
func (v *Vector) RunFor(b *Binding, form string, asked []byte, stream bool) Result {
	return Result((*plugindev.Vector)(v).RunFor(b.Binding, form, asked, stream))
}

// settings are those that the plugin is bound with for this vector.
func (v *Vector) settings(u Use) string {
	if len(v.Settings) > 0 {
		return string(v.Settings)
	}
	return u.Settings
}

// check runs the vector, whole and streamed, and compares what comes of it with want.txt.
func (v *Vector) check(t *testing.T, b *Binding) {
	t.Helper()
	o := (*plugindev.Vector)(v).Outcome(b.Binding)
	for _, p := range o.Problems() {
		t.Error(p)
	}
	file := filepath.Join(v.Dir, plugindev.WantFile)
	if *update {
		if err := os.WriteFile(file, []byte(o.Text()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got := o.Text(); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if o.Whole.Err != nil {
		t.Logf("ended by: %v", o.Whole.Err)
	}
	cost := o.Whole.Cost
	t.Logf("fuel: request %d, answer %d in %d calls, %.2f%% of a budget at most", cost.Request, cost.Reading, cost.Reads, 100*o.Share())
}
