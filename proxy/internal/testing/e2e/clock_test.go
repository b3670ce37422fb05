package e2e_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// shiftWallClock returns at with another wall clock reading but the same monotonic clock reading, as time.Now does
// after the system's clock was set. Package time has no function for that, so this depends on the layout of Time.
func shiftWallClock(t *testing.T, at time.Time, by time.Duration) time.Time {
	shifted := at
	// 1 bit that is set if there is a monotonic reading, 33 bits of seconds, 30 bits of nanoseconds.
	*(*uint64)(unsafe.Pointer(&shifted)) += uint64(by/time.Second) << 30
	if shifted.Sub(at) != 0 || shifted.Unix() != at.Add(by).Unix() {
		t.Fatalf("the layout of time.Time has changed: %v became %v", at, shifted)
	}
	return shifted
}

// TestClockJumps moves the clock ten years forward, then twenty back, during a stream. Durations use the monotonic
// clock; dates use the wall clock.
//
// covers: F87
func TestClockJumps(t *testing.T) {
	const years = 365 * 24 * time.Hour
	var by atomic.Int64
	jumps := make([]chan struct{}, 3)
	script := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream()}
	for i := range jumps {
		jumps[i] = make(chan struct{})
		script = append(script, upstreamtest.Chunk(text("w"+strconv.Itoa(i)+" ")), upstreamtest.Wait(jumps[i]))
	}
	script = append(script, upstreamtest.Chunk(finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(), upstreamtest.Loop(
		upstreamtest.ReadRequest(), upstreamtest.Answer(429, "application/json", `{"error":{"message":"slow"}}`, "Retry-After: "+time.Now().Add(years).UTC().Format(time.RFC1123[:len(time.RFC1123)-3]+"GMT"))))
	provider := upstreamtest.New(t, script)
	toml := configuration(provider.URL(), "")
	toml = strings.Replace(toml, `heartbeat = "40ms"`, `heartbeat = "1h"`, 1)
	toml = strings.Replace(toml, `first_byte = "3s", idle = "3s", total = "30s"`, `first_byte = "1h", idle = "1h", total = "1h"`, 1)
	toml += "\n[[keys]]\nname = \"five-years\"\nsecret = \"sk-five-years-0123456789\"\nexpires = " + time.Now().Add(5*years).Format("2006-01-02") + "\n"
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) {
		o.Now = func() time.Time { return shiftWallClock(t, time.Now(), time.Duration(by.Load())) }
	})

	c := dial(t, g)
	c.post("jumps", askStream)
	var stream strings.Builder
	for i, to := range []time.Duration{10 * years, -10 * years, 3 * years} {
		stream.WriteString(c.readUntil(`"w` + strconv.Itoa(i) + ` "},"finish_reason":null}]}`))
		by.Store(int64(to))
		want := 200
		if to > 5*years {
			want = 401
		}
		if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-five-years-0123456789"); r.Status != want {
			t.Errorf("a key that expires in five years gets status %d after a jump of %v, want %d", r.Status, to, want)
		}
		close(jumps[i])
	}
	stream.WriteString(c.readUntil("0\r\n\r\n"))
	if got := stream.String(); content(got) != "w0 w1 w2 " || !strings.Contains(got, "[DONE]") || strings.Contains(got, "keep-alive") {
		t.Errorf("the stream is %s", got)
	}
	line := g.Log.Request(t, "jumps")
	for _, name := range []string{"duration_ms", "first_event_ms"} {
		if took, err := time.ParseDuration(line[name] + "ms"); err != nil || took < 0 || took > proxytest.EventTimeout {
			t.Errorf("%s is %s", name, line[name])
		}
	}
	// Retry-After is at most an hour, even if the provider's date is in the past or years ahead by the gateway's clock.
	for _, to := range []time.Duration{10 * years, -10 * years} {
		by.Store(int64(to))
		r := g.Chat(t, ask)
		wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if r.Status != 429 || err != nil && r.Header.Get("Retry-After") != "" || wait < 0 || wait > 3600 {
			t.Errorf("status %d, retry-after %q after a jump of %v", r.Status, r.Header.Get("Retry-After"), to)
		}
	}
}
