package recording_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/recording"
)

func record(r *recording.Recorder, size int) {
	t := r.Start("p")
	t.SetRequest(recording.Request{Body: []byte("request")})
	t.StartResponse(200, func(func(name, value []byte)) {})
	t.Write(make([]byte, size))
	t.End(recording.Ended)
}

func drain(t *testing.T, r *recording.Recorder) (n int) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		tape, err := r.Next(ended)
		if errors.Is(err, context.Canceled) {
			return n
		}
		n++
		tape.Release()
	}
}

func TestRecordsOnlyOneProvider(t *testing.T) {
	var none *recording.Recorder
	for name, tape := range map[string]*recording.Tape{"no recorder": none.Start("p"), "another provider": recording.New("p").Start("q")} {
		if tape != nil {
			t.Errorf("%s: got a tape, want nil", name)
		}
		// The methods of a nil Tape do nothing.
		tape.SetRequest(recording.Request{Body: []byte("x")})
		tape.StartResponse(200, func(func(name, value []byte)) { t.Error("headers are read") })
		tape.Write([]byte("x"))
		tape.SetFraming(1)
		tape.End(recording.Ended)
	}
}

func TestTapeCopiesInput(t *testing.T) {
	r := recording.New("p")
	tape := r.Start("p")
	memory := []byte("one")
	tape.SetRequest(recording.Request{Body: memory, Options: memory})
	tape.StartResponse(201, func(func(name, value []byte)) {})
	tape.Write(memory)
	tape.StartResponse(429, func(yield func(name, value []byte)) { yield([]byte("Retry-After"), memory) })
	tape.Write(memory)
	copy(memory, "two")
	tape.Write(memory)
	tape.End(recording.Truncated)
	got, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []recording.Response{
		{Status: 201, Body: []byte("one")},
		{Status: 429, Headers: []recording.Header{{Name: "retry-after", Value: "one"}}, Body: []byte("onetwo")},
	}
	if diff := cmp.Diff(want, got.Responses); diff != "" || string(got.Request.Body) != "one" || string(got.Request.Options) != "one" || got.Ending != recording.Truncated {
		t.Errorf("got tape %+v\n%s", got, diff)
	}
}

// TestRecordingNeverWaits records more tapes than may wait for Next: nothing blocks, and dropped tapes are counted.
func TestRecordingNeverWaits(t *testing.T) {
	r := recording.New("p")
	const many = 100
	for range many {
		record(r, 10)
	}
	n := drain(t, r)
	if n == 0 || n == many || r.Dropped() != int64(many-n) {
		t.Errorf("%d of %d recorded, %d dropped", n, many, r.Dropped())
	}
	record(r, 10)
	if drain(t, r) != 1 {
		t.Error("nothing is recorded after the waiting tapes have been read")
	}
}

func TestMemoryOfRecordingsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("copies some 300 MB")
	}
	r := recording.New("p")
	for range 10 {
		record(r, 10<<20)
	}
	if n := drain(t, r); n != 6 || r.Dropped() != 4 {
		t.Errorf("%d recorded, %d dropped", n, r.Dropped())
	}
	// Dropped tapes have freed their memory, even a tape that exceeds the bound alone.
	record(r, 65<<20)
	record(r, 60<<20)
	if n := drain(t, r); n != 1 || r.Dropped() != 5 {
		t.Errorf("%d recorded, %d dropped", n, r.Dropped())
	}
	tape := r.Start("p")
	tape.StartResponse(200, func(func(name, value []byte)) {})
	tape.Write(bytes.Repeat([]byte("x"), 65<<20))
	tape.Write([]byte("more"))
	tape.End(recording.Ended)
	if len(tape.Responses) != 0 || r.Dropped() != 6 {
		t.Errorf("a dropped tape holds %d responses, and %d are dropped, want 0 and 6", len(tape.Responses), r.Dropped())
	}
}
