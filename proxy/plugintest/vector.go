package plugintest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// Types shared with the `sluice plugin` commands.
type (
	// Use is a use of the plugin, as in a configuration.
	Use = plugindev.Use
	// Event is one event of an upstream's stream.
	Event = plugindev.Event
	// Header is a header of a request; its name is in lower case.
	Header = plugindev.Header
	// ListRequest is the request for a page of an upstream's model list. An empty path means that there is no list.
	ListRequest = plugindev.ListRequest
	// Cost is the fuel that the calls of a vector used; 0 for a native plugin.
	Cost = plugindev.Cost
)

// Vector is a client's request and an upstream's response to it.
type Vector plugindev.Vector

// Result is the result of running a vector. If the plugin itself failed, the first line of Response contains the call
// and the error, and the rest is the response that the client would receive.
type Result plugindev.Result

// Load reads the vectors below a folder, sorted by name.
func Load(dir string) ([]*Vector, error) {
	loaded, err := plugindev.LoadVectors(dir)
	vectors := make([]*Vector, len(loaded))
	for i, v := range loaded {
		vectors[i] = (*Vector)(v)
	}
	return vectors, err
}

// SplitEvents returns the events of a stream, up to the first error.
func SplitEvents(contentType string, body []byte) []Event {
	return plugindev.SplitEvents(contentType, body)
}

// FlagNames returns the names of a summary's flags, in the order of their bits in the ABI.
func FlagNames() (names []string) {
	for bit := range 32 {
		names = append(names, clientapi.Flags(1<<bit).Names()...)
	}
	return names
}

// Run runs the vector for a client that wants a stream with its usage, or a non-streaming response, whatever the
// request asks for. The summary that the plugin receives is derived from the request's body.
func (v *Vector) Run(b *Binding, stream bool) Result { return v.RunFor(b, "", nil, stream) }

// RunFor is like Run for a client that uses another API than the vector does: form is that API, and asked is the
// client's request, which must be equivalent to the vector's.
func (v *Vector) RunFor(b *Binding, form string, asked []byte, stream bool) Result {
	return Result((*plugindev.Vector)(v).RunFor(b.Binding, form, asked, stream))
}

// settings returns the settings with which the plugin is bound for this vector.
func (v *Vector) settings(u Use) string {
	if len(v.Settings) > 0 {
		return string(v.Settings)
	}
	return u.Settings
}

// check runs the vector, non-streaming and as a stream, and compares the outcome with want.txt.
func (v *Vector) check(t *testing.T, b *Binding) {
	t.Helper()
	o := (*plugindev.Vector)(v).Outcome(b.Binding)
	problems := o.Problems()
	for _, p := range problems {
		t.Error(p)
	}
	file := filepath.Join(v.Dir, plugindev.WantFile)
	if *update && len(problems) == 0 {
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
		t.Logf("error: %v", o.Whole.Err)
	}
	cost := o.Whole.Cost
	t.Logf("fuel: request %d, response %d in %d calls, at most %.2f%% of a call's budget", cost.Request, cost.Reading, cost.Reads, 100*o.Share())
}
