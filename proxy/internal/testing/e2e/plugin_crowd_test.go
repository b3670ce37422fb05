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

// crowdKeys are the client keys of the streams that are well, and of the one that is not.
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

// crowd is a provider of many streams, each of which says in every event whose it is: the word that the client asked with.
// A client that asks for "trap" gets an event which makes the plugin panic. An event is sent when next lets it, which is
// given the word and the number of the event, and returns what follows the word, or false where the client has gone.
type crowd struct {
	*httptest.Server
	events int
	next   func(ctx context.Context, who string, event int) (string, bool)
}

var asked = regexp.MustCompile(`"content":"([^"]+)"`)

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
	who := string(asked.FindSubmatch(body)[1])
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	if who == "trap" {
		io.WriteString(w, "data: panic\n\n")
		flush()
		<-r.Context().Done()
		return
	}
	flush()
	for i := range c.events {
		what, ok := c.next(r.Context(), who, i)
		if !ok {
			return
		}
		fmt.Fprintf(w, "data: %s %s\n\n", who, what)
		flush()
	}
	io.WriteString(w, "data: end\n\n")
}

// ask asks for a stream by a word, and hands each line of it to the caller.
func (c *crowd) ask(ctx context.Context, client *http.Client, g *proxytest.Gateway, key, who string, line func(string)) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/v1/chat/completions", strings.NewReader(strings.Replace(askOf("crowd/honest", true), canary, who, 1)))
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

// trapping asks for a stream that makes the plugin trap, again and again, until ctx ends, and counts the answers by their
// status and code. pause comes between two of them.
func (c *crowd) trapping(ctx context.Context, client *http.Client, g *proxytest.Gateway, key string, pause func()) map[string]int {
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

// crowdClient keeps no connection that it does not use.
func crowdClient(tb testing.TB) *http.Client {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	tb.Cleanup(client.CloseIdleConnections)
	return client
}

// TestTrapsAmongAThousandStreams has a thousand clients read streams while another one requests streams that make the
// same plugin trap, as fast as it can: with another client key, and with the same. The thousand get exactly their own
// bytes.
//
// covers: F90 F98
func TestTrapsAmongAThousandStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs, or makes much load")
	}
	// At most so many events are on their way at a time, or a slow machine would truly be overloaded.
	const events, atOnce = 10, 40
	streams := scale(1000, 200)
	for _, c := range []struct{ name, key, isolation string }{
		{"of another key", "one", "key"},
		{"of the same key", "many", "key"},
		{"of another key, shared", "one", "shared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onTheWay := make(chan struct{}, atOnce)
			open, all := make(chan struct{}), make(chan struct{})
			crowd := newCrowd(t, events, func(ctx context.Context, _ string, i int) (string, bool) {
				if i == 1 {
					// Everybody has the first event before anybody gets the second.
					select {
					case <-all:
					case <-ctx.Done():
					}
				}
				if i > 0 {
					select {
					case onTheWay <- struct{}{}:
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
				defer close(open)
				for i := range streams {
					select {
					case onTheWay <- struct{}{}:
					case <-ctx.Done():
						return
					}
					wg.Go(func() {
						status, err := crowd.ask(ctx, client, g, "many", word(i), func(line string) {
							bodies[i].WriteString(line + "\n")
							if !strings.Contains(line, word(i)) {
								return
							}
							<-onTheWay
							if strings.Contains(line, word(i)+" 0") && begun.Add(1) == int64(streams) {
								close(all)
							}
						})
						if status != 200 || err != nil {
							t.Errorf("%s: %d %v", word(i), status, err)
						}
					})
				}
			}()
			trapping, enough := context.WithCancel(ctx)
			traps := make(chan map[string]int, 1)
			go func() { traps <- crowd.trapping(trapping, client, g, c.key, func() {}) }()
			<-open
			wg.Wait()
			enough()
			answers := <-traps
			for i := range bodies {
				want := crowdStream(i, events)
				if body := steady(bodies[i].String()); body != want {
					t.Fatalf("%s got\n%s\nwant\n%s", word(i), body, want)
				}
			}
			if len(answers) != 1 || answers["502 plugin_crashed <nil>"] < 1 {
				t.Errorf("the one that traps got %v", answers)
			}
			p := pluginStatus(t, g, "hostile")
			if p.Idle < 1 || p.Used+p.Idle > runtime.GOMAXPROCS(0)+1 {
				t.Errorf("%d instances in use, %d idle", p.Used, p.Idle)
			}
			t.Logf("%d answers to the one that traps: %d traps in %d calls, %d attempts kept away", answers["502 plugin_crashed <nil>"], p.Failures, p.Calls, p.Kinds["breaker"])
		})
	}
}

// pluginStatus is what the gateway says of a plugin.
func pluginStatus(tb testing.TB, g *proxytest.Gateway, name string) admin.Plugin {
	tb.Helper()
	for _, p := range g.Server.Status(admin.Page{}).Plugins {
		if p.Name == name {
			return p
		}
	}
	tb.Fatalf("the gateway knows of no plugin %s", name)
	return admin.Plugin{}
}

func word(i int) string { return fmt.Sprintf("canary-%04d", i) }

func number(word string) (i int) {
	fmt.Sscanf(word, "canary-%d", &i)
	return i
}

// crowdStream is what one of the crowd gets.
func crowdStream(i, events int) string {
	const head = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"honest","choices":[{"index":0,"delta":`
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
			crowd := newCrowd(b, events, func(ctx context.Context, who string, i int) (string, bool) {
				// Each at its own moment of the pace, behind a second in which all of them begin.
				phase := time.Duration(number(who)) * pace / streams
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
				traps.Go(func() { crowd.trapping(ctx, client, g, c.key, func() { <-every.C }) })
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
						b.Errorf("%d %v, %d events", status, err, len(mine))
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
