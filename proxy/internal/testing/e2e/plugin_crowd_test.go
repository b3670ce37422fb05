package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// crowdKeys has the client keys "many", for the well-behaved streams, and "one", for a client whose streams trap.
const crowdKeys = `
[server]
heartbeat = "0s"
[[keys]]
name   = "many"
secret = "sk-many-0123456789"
[[keys]]
name   = "one"
secret = "sk-one-0123456789"
`

// crowd is a provider of many concurrent streams. Every event of a stream contains the word that the client sent as its
// prompt, and the prompt "trap" gets an event that makes the plugin panic. Before each event the provider calls next,
// which blocks until the event is due and returns the text after the word, or false if the client has disconnected.
type crowd struct {
	*httptest.Server
	events int
	next   func(ctx context.Context, word string, event int) (string, bool)
}

var promptWord = regexp.MustCompile(`"content":"([^"]+)"`)

func newCrowd(tb testing.TB, events int, next func(context.Context, string, int) (string, bool)) *crowd {
	c := &crowd{events: events, next: next}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	tb.Cleanup(c.Close)
	return c
}

func (c *crowd) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	word := string(promptWord.FindSubmatch(body)[1])
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	if word == "trap" {
		io.WriteString(w, "data: panic\n\n")
		flush()
		<-r.Context().Done()
		return
	}
	flush()
	for i := range c.events {
		text, ok := c.next(r.Context(), word, i)
		if !ok {
			return
		}
		fmt.Fprintf(w, "data: %s %s\n\n", word, text)
		flush()
	}
	io.WriteString(w, "data: end\n\n")
}

// ask requests a stream with a word as the prompt, and calls line for each line of the response.
func (c *crowd) ask(ctx context.Context, client *http.Client, g *proxytest.Gateway, key, word string, line func(string)) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/v1/chat/completions", strings.NewReader(strings.Replace(canaryRequest("crowd/honest", true), canary, word, 1)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer sk-"+key+"-0123456789")
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line(lines.Text())
	}
	return resp.StatusCode, lines.Err()
}

// requestTraps requests streams that make the plugin trap, one after the other, until ctx ends, and counts the
// responses by status and code. It calls pause after each.
func (c *crowd) requestTraps(ctx context.Context, client *http.Client, g *proxytest.Gateway, key string, pause func()) map[string]int {
	answers := make(map[string]int)
	for {
		var body strings.Builder
		status, err := c.ask(ctx, client, g, key, "trap", func(l string) { body.WriteString(l) })
		if ctx.Err() != nil {
			return answers
		}
		code := "no code"
		if m := errorCode.FindStringSubmatch(body.String()); m != nil {
			code = m[1]
		}
		answers[fmt.Sprint(status, " ", code, " ", err)]++
		pause()
	}
}

var errorCode = regexp.MustCompile(`"code":"([^"]+)"`)

// crowdClient returns a client that keeps few idle connections.
func crowdClient(tb testing.TB) *http.Client {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	tb.Cleanup(client.CloseIdleConnections)
	return client
}

// TestTrapsDoNotAffectOtherStreams has a thousand clients read streams while another client requests, as fast as it
// can, streams that make the same plugin trap, with another client key or with the same. Each of the thousand gets
// exactly its own bytes.
//
// covers: F90 F98
func TestTrapsDoNotAffectOtherStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a thousand streams")
	}
	const events = 10
	const maxPending = 40 // events between provider and client at a time; more would overload a slow machine
	streams := scale(1000, 200)
	for _, c := range []struct{ name, key, isolation string }{
		{"another key traps", "one", "key"},
		{"the same key traps", "many", "key"},
		{"another key traps, shared plugin", "one", "shared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pending := make(chan struct{}, maxPending)
			started := make(chan struct{})  // closed when all streams have been requested
			allBegun := make(chan struct{}) // closed when all clients have their first event
			crowd := newCrowd(t, events, func(ctx context.Context, _ string, i int) (string, bool) {
				if i == 1 {
					// All clients have the first event before any gets the second.
					select {
					case <-allBegun:
					case <-ctx.Done():
					}
				}
				if i > 0 {
					select {
					case pending <- struct{}{}:
					case <-ctx.Done():
					}
				}
				return fmt.Sprint(i), ctx.Err() == nil
			})
			g := proxytest.Start(t, crowdKeys+guest(t, "hostile", c.isolation)+hostileProvider("crowd", crowd.URL, "honest"))
			client := crowdClient(t)
			ctx, stop := context.WithTimeout(t.Context(), 5*proxytest.EventTimeout)
			defer stop()

			var begun atomic.Int64
			bodies := make([]strings.Builder, streams)
			var wg sync.WaitGroup
			go func() {
				defer close(started)
				for i := range streams {
					select {
					case pending <- struct{}{}:
					case <-ctx.Done():
						return
					}
					wg.Go(func() {
						status, err := crowd.ask(ctx, client, g, "many", word(i), func(line string) {
							bodies[i].WriteString(line + "\n")
							if !strings.Contains(line, word(i)) {
								return
							}
							<-pending
							if strings.Contains(line, word(i)+" 0") && begun.Add(1) == int64(streams) {
								close(allBegun)
							}
						})
						if status != 200 || err != nil {
							t.Errorf("stream %s: status %d, %v", word(i), status, err)
						}
					})
				}
			}()
			trapCtx, stopTraps := context.WithCancel(ctx)
			traps := make(chan map[string]int, 1)
			go func() { traps <- crowd.requestTraps(trapCtx, client, g, c.key, func() {}) }()
			<-started
			wg.Wait()
			stopTraps()
			answers := <-traps
			for i := range bodies {
				want := crowdStream(i, events)
				if body := normalized(bodies[i].String()); body != want {
					t.Fatalf("%s got\n%s\nwant\n%s", word(i), body, want)
				}
			}
			if len(answers) != 1 || answers["502 plugin_crashed <nil>"] < 1 {
				t.Errorf("the trapping client got %v, want only 502 plugin_crashed", answers)
			}
			p := pluginStatus(t, g, "hostile")
			if p.Idle < 1 || p.Used+p.Idle > runtime.GOMAXPROCS(0)+1 {
				t.Errorf("%d instances in use, %d idle", p.Used, p.Idle)
			}
			t.Logf("%d responses to the trapping client: %d traps in %d calls, %d attempts stopped by the circuit breaker", answers["502 plugin_crashed <nil>"], p.Failures, p.Calls, p.Kinds["breaker"])
		})
	}
}

// pluginStatus returns a plugin's entry in the gateway's status.
func pluginStatus(tb testing.TB, g *proxytest.Gateway, name string) admin.Plugin {
	tb.Helper()
	for _, p := range g.Server.Status(admin.Page{}).Plugins {
		if p.Name == name {
			return p
		}
	}
	tb.Fatalf("the status has no plugin %s", name)
	return admin.Plugin{}
}

func word(i int) string { return fmt.Sprintf("canary-%04d", i) }

func wordNumber(word string) (i int) {
	fmt.Sscanf(word, "canary-%d", &i)
	return i
}

// crowdStream returns the stream that client i expects.
func crowdStream(i, events int) string {
	const head = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","system_fingerprint":null,"choices":[{"index":0,"delta":`
	s := head + `{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	for n := range events {
		s += head + fmt.Sprintf(`{"content":"%s %d"},"finish_reason":null}]}`, word(i), n) + "\n\n"
	}
	return s + head + `{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
}

// BenchmarkTrappingNeighbour measures an event of a thousand paced streams, alone and together with a client that
// requests, a hundred times per second, a stream that makes their plugin trap. It prints the time from the provider's
// write to the client's read, and the process's own time per event, client and provider included.
func BenchmarkTrappingNeighbour(b *testing.B) {
	const streams, pace = 1000, 500 * time.Millisecond
	for _, c := range []struct{ name, key string }{{"calm", ""}, {"another key traps", "one"}, {"the same key traps", "many"}} {
		b.Run(c.name, func(b *testing.B) {
			events := max(20, b.N/streams)
			began := time.Now()
			crowd := newCrowd(b, events, func(ctx context.Context, word string, i int) (string, bool) {
				// The streams are spread over the pace, after a second for all of them to start.
				phase := time.Duration(wordNumber(word)) * pace / streams
				select {
				case <-time.After(time.Until(began.Add(time.Second + phase + time.Duration(i)*pace))):
				case <-ctx.Done():
				}
				return fmt.Sprint(time.Since(began).Nanoseconds()), ctx.Err() == nil
			})
			g := proxytest.Start(b, crowdKeys+guest(b, "hostile", "shared")+hostileProvider("crowd", crowd.URL, "honest"))
			client := crowdClient(b)
			ctx, stop := context.WithCancel(b.Context())
			var traps sync.WaitGroup
			if c.key != "" {
				every := time.NewTicker(10 * time.Millisecond)
				defer every.Stop()
				traps.Go(func() { crowd.requestTraps(ctx, client, g, c.key, func() { <-every.C }) })
			}
			began = time.Now()
			var mu sync.Mutex
			var took []time.Duration
			var wg sync.WaitGroup
			before := cpu()
			for i := range streams {
				wg.Go(func() {
					mine := make([]time.Duration, 0, events)
					if status, err := crowd.ask(b.Context(), client, g, "many", word(i), func(line string) {
						now := time.Since(began)
						if _, sent, ok := strings.Cut(line, word(i)+" "); ok {
							var at int64
							fmt.Sscan(sent[:strings.IndexByte(sent, '"')], &at)
							mine = append(mine, now-time.Duration(at))
						}
					}); status != 200 || err != nil || len(mine) != events {
						b.Errorf("stream %s: status %d, %v, %d events, want %d", word(i), status, err, len(mine), events)
					}
					mu.Lock()
					took = append(took, mine...)
					mu.Unlock()
				})
			}
			wg.Wait()
			used := cpu() - before
			stop()
			traps.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(used.Microseconds())/float64(len(took)), "cpu-µs/event")
			b.ReportMetric(float64(pluginStatus(b, g, "hostile").Failures), "traps")
			b.ReportMetric(0, "ns/op")
		})
	}
}
