package admin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

func newReader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

// hostile is text that, without escaping, would end an attribute or element and add markup.
const hostile = `"'><script>alert(1)</script><img src=x onerror=y>&amp;$`

// filled returns a Status in which every string is hostile, every number is non-zero, and every list and map has
// entries.
func filled() Status {
	var s Status
	fill(reflect.ValueOf(&s).Elem())
	return s
}

// filledRequests returns requests in which every string is hostile.
func filledRequests() *recentRequests {
	r := &recentRequests{codes: map[string]int64{hostile: 3, "overloaded": 4}, total: 12, last: make([]telemetry.Entry, 2)}
	for i := range r.last {
		e := &r.last[i]
		e.RequestID, e.Code, e.CauseWas, e.Model, e.Provider, e.Target, e.Key = hostile, hostile, hostile, hostile, hostile, hostile, hostile
		e.Status, e.Attempts, e.Priced, e.Cost, e.Shadow, e.Began, e.Ended = 502, 2, true, 7, true, time.Unix(1000, 0), time.Unix(1001, 0)
	}
	return r
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(12345)
	case reflect.Uint64:
		v.SetUint(12345)
	case reflect.Float64:
		v.SetFloat(0.75)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(hostile), reflect.ValueOf(int64(3)))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// element is an element of a page.
type element struct {
	name  string
	attrs map[string]string
}

// elements parses a page strictly: elements must be closed and nested correctly, and attributes quoted.
func elements(t *testing.T, page string) (all []element, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	var words strings.Builder
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all, words.String()
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v\n%s", err, page)
		}
		switch v := token.(type) {
		case xml.StartElement:
			e := element{v.Name.Local, map[string]string{}}
			for _, a := range v.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			words.Write(v)
		}
	}
}

func states() map[string]Status {
	off := filled()
	on := filled()
	on.Providers[0].Off, on.Models[0].Off = "", ""
	on.Providers[0].Targets[0].State = StateOpen
	on.Models[0].Targets[0].Off = false
	on.Ready, on.Config.ReloadError = false, ""
	healthy := Status{
		Ready: true, Providers: []Provider{{Name: "demo", Plugin: "demo"}, {Name: "two", Max: 5, Targets: []Target{{Model: "a"}, {Model: "b", State: StateHealthy}}}},
		Models: []Model{{ID: "m", Targets: []Target{{Provider: "two", Model: "a"}}}}, Plugins: []Plugin{{Name: "p"}},
	}
	return map[string]Status{"hostile": off, "hostile and on": on, "empty": {}, "healthy": healthy}
}

func TestPageIsWellFormedAndEscaped(t *testing.T) {
	busy := figures{requests: []float64{0, 5, 1000}, failed: []float64{0, 5, 1}, firstEvent: []float64{0, 0.1, 3}, streams: []float64{1, 0, 4}, memory: []float64{1e6, 2e6, 3e9}}
	for name, s := range states() {
		for _, f := range []figures{{}, busy} {
			page := string(appendPage(nil, &s, filledRequests(), f, true))
			if strings.Count(page, "<script") != 1 || !strings.HasSuffix(page, "<script>"+statusScript+"</script></body></html>") || strings.Contains(page, "<img") {
				t.Fatalf("%s: the page contains injected markup:\n%s", name, page)
			}
			all, text := elements(t, page)
			for _, e := range all {
				for attr, value := range e.attrs {
					switch {
					case attr == "style" || strings.HasPrefix(attr, "on"):
						t.Errorf("%s: <%s %s=%q>", name, e.name, attr, value)
					case attr == "href" && !strings.HasPrefix(value, "/?") && !slices.Contains([]string{"data:,", "/", "/status", "/metrics", "/explain", "/requests?failed=true"}, value):
						t.Errorf("%s: the page links to %q", name, value)
					case attr == "src" || attr == "action" || attr == "data":
						t.Errorf("%s: the page loads %q", name, value)
					}
				}
				if slices.Contains([]string{"img", "iframe", "form", "object"}, e.name) {
					t.Errorf("%s: the page has <%s>", name, e.name)
				}
			}
			if name == "hostile" && strings.Count(text, hostile) < 10 {
				t.Errorf("%s: the page shows %d strings of the status, want at least 10", name, strings.Count(text, hostile))
			}
		}
	}
}

// TestPageContent checks that the page shows what an operator looks for.
func TestPageContent(t *testing.T) {
	spent := cost.Nano(12_345_678)
	began := time.Unix(1_700_000_000, 0).Add(-time.Hour)
	ends := began.Add(27 * time.Hour)
	s := Status{
		Version: "v1.2.3", Reason: "the gateway is shutting down", Uptime: 90000, Now: time.Unix(1_700_000_000, 0),
		Config:   Config{Generation: 7, ReloadError: "gateway.toml:3:1: server.lisen: unknown key"},
		Requests: Requests{Total: 1234567, ServerErrors: 12, Shed: map[string]int64{"plugins": 4}, Statuses: map[string]int64{"200": 1000, "429": 7}, FirstEvent: Percentiles{0.2, 1.5, 3}},
		Keys:     []Key{{Name: "team-a", Team: "research", Counts: Counts{Requests: 12, Errors: 2, PromptTokens: 3400, CachedTokens: 850, CompletionTokens: 560, ReasoningTokens: 56, Cost: &spent, Rejected: map[string]int64{"concurrent": 3, "model": 1}}}, {Name: "old", State: "expired"}}, KeysTotal: 2,
		ModelsTotal: 2, ModelsListed: 1,
		Models: []Model{{ID: "listed-model", Listed: true}, {ID: "fast", Counts: Counts{Requests: 77, Errors: 9}, Failed: 4, FirstEvent: Percentiles{0.25, 1, 2}, Targets: []Target{{Provider: "openai", Model: "gpt", State: StateOpen}}, Canary: &Canary{
			Provider: "new", Model: "gpt", Step: 2, Steps: 3, Share: 0.1, Began: time.Unix(1_700_000_000, 0), Attempts: 61, Errors: 2,
		}}, {ID: "slow", Canary: &Canary{Provider: "new", Model: "slow", RolledBack: new(time.Time), Reason: "plugin traps: 1, rolled back at 1"}}},
		Providers: []Provider{{Name: "openai", Plugin: "openai", Max: 10, Used: 3, Targets: []Target{{Model: "gpt", State: StateOpen, ErrorRate: 0.5, Failed: 41, Failures: 6, LastError: &TargetError{At: time.Unix(1_700_000_000, 0), Code: "upstream_unreachable", Text: "connection refused"}}}}, {Name: "gemini", Off: "GEMINI_API_KEY is not set"}},
		Teams:     []Team{{Name: "lab", Keys: 31, Counts: Counts{Requests: 5, Rejected: map[string]int64{"budget": 8}}}}, TeamsTotal: 1,
		Budgets: []Budget{
			{Scope: "team", Name: "lab", Per: "month", Start: &began, End: &ends, Limit: 300 * cost.Dollar, Spent: 270*cost.Dollar + 4_999_999, Held: 5 * cost.Dollar, Left: 25 * cost.Dollar, Used: 0.9, State: "warned", Warn: 0.75},
			{Scope: "key", Name: "team-a", Per: "total", Limit: 12_345 * cost.Dollar, Spent: 12_345 * cost.Dollar, Used: 1, State: "refusing", Refused: 42, Strict: true},
		}, BudgetsTotal: 2,
		Plugins: []Plugin{{Name: "router", Calls: 10, Fuel: 30000, Failures: 2, Kinds: map[string]int64{"trap": 2}, Open: true, Breaker: "open", Generations: 1}},
		Process: Process{Memory: 100 << 20, Limit: 512 << 20},
	}
	page := string(appendPage(nil, &s, nil, figures{requests: []float64{2}, failed: []float64{1}}, true))
	all, text := elements(t, page)
	for _, want := range []string{
		"not ready", "the gateway is shutting down", "v1.2.3", "up 1 d 1 h", "configuration 7", "configuration reload failed", "gateway.toml:3:1: server.lisen: unknown key",
		"1\u202f234\u202f567", "0.0123", "12 failed", "400 25 % cached", "560 10 % reasoning", "9 4 failed", "lab keys: 31", "8 budget",
		"lab team, per month", "90 %", "270.00 of 300.00", "25.00", "in 1 d 2 h", "team-a key, in total", "100 %", "42 refused", "12\u202f345.00 of 12\u202f345.00", "never", "off: GEMINI_API_KEY is not set", "50 %", "circuit open; the next request is a trial", "3 used, 0 idle", "3 k", "breaker open, trap 2", "100 MiB of 512 MiB", "4 overloaded: plugins",
		"200 × 1\u202f000", "429 × 7", "p50 200 ms · p95 1.5 s · p99 3 s", "team-a research", "3 concurrent, 1 model", "old expired", "1 configured, 1 listed by providers", "listed-model", "p50 250 ms",
		"canary new / gpt step 2 of 3, 10 % of the requests since 2023-11-14 22:13:20 UTC; 2 of 61 attempts failed", "canary new / slow ✕ rolled back 0001-01-01 00:00:00 UTC: plugin traps: 1",
		"last error 2023-11-14 22:13:20 UTC: upstream_unreachable: connection refused",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	refreshes, failedBars := 0, 0
	for _, e := range all {
		if e.attrs["http-equiv"] == "refresh" {
			refreshes++
		}
		if e.name == "rect" && e.attrs["class"] == "fail" {
			failedBars++
		}
	}
	if refreshes != 1 || failedBars != 1 {
		t.Errorf("%d refresh elements and %d bars for failures, want 1 of each", refreshes, failedBars)
	}
	if page := string(appendPage(nil, &s, nil, figures{}, false)); strings.Contains(page, "http-equiv") || strings.Contains(page, "<script") {
		t.Error("the paused page refreshes itself")
	}
}

// TestContentSecurityPolicy checks that the policy matches the page.
func TestContentSecurityPolicy(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{})
	resp, body := get(t, address, "/")
	_, rest, _ := strings.Cut(body, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	if style != css {
		t.Error("the page's style sheet is not the one in the policy")
	}
	got := resp.Header.Get("Content-Security-Policy")
	if !regexp.MustCompile(`^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; script-src 'sha256-[A-Za-z0-9+/]{43}='; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$`).MatchString(got) {
		t.Errorf("policy %s", got)
	}
	if regexp.MustCompile(`(?i)url\(|@import|expression|</`).MatchString(css) {
		t.Error("the style sheet loads something, or contains an end tag")
	}
	if strings.ContainsAny(statusScript, "<&") || regexp.MustCompile(`innerHTML|eval|document\.write`).MatchString(statusScript) {
		t.Error("the script contains markup, or turns text into markup")
	}
	if _, page := get(t, address, "/?still"); strings.Contains(page, "http-equiv") || !strings.Contains(body, "http-equiv") {
		t.Error("the query does not disable the refresh")
	}
}

func TestStatusDocument(t *testing.T) {
	want := filled()
	address, _ := serve(t, &fake{status: func(Page) Status { return want }}, Options{})
	_, body := get(t, address, "/status")
	var got Status
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); got.Requests.Total != 12345 || len(a) < 1000 || len(b) < 1000 {
		t.Errorf("got  %s\nwant %s", a, b)
	}
	for _, m := range regexp.MustCompile(`"([^"]+)":`).FindAllStringSubmatch(body, -1) {
		if strings.ToLower(m[1]) != m[1] {
			t.Errorf("member %s is not in lower case", m[1])
		}
	}
}

func TestHistory(t *testing.T) {
	var h history
	at := time.Unix(1000, 0)
	add := func(total, failed, first int64, seconds float64, streams, memory int64) {
		h.add(&Status{Now: at, Requests: Requests{Total: total, ServerErrors: failed, FirstEvents: first, FirstEventSeconds: seconds, Streams: streams}, Process: Process{Memory: memory}})
		at = at.Add(5 * time.Second)
	}
	if f := h.figures(); len(f.requests) != 0 {
		t.Errorf("figures without samples: %v", f)
	}
	add(10, 1, 5, 2, 3, 100)
	add(20, 1, 9, 4, 4, 200)
	add(20, 1, 9, 4, 0, 300)
	add(5, 0, 1, 1, 0, 300) // a reload has dropped counts
	got := fmt.Sprint(h.figures())
	if want := fmt.Sprint(figures{[]float64{2, 0, 0}, []float64{0, 0, 0}, []float64{0.5, 0, 0}, []float64{4, 0, 0}, []float64{200, 300, 300}}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for range 3 * keepSamples {
		add(1, 1, 1, 1, 1, 1)
	}
	if f := h.figures(); len(f.requests) != keepSamples {
		t.Errorf("%d points, want %d", len(f.requests), keepSamples)
	}
}

// TestHistoryIsSampled checks that samples are taken without any request.
func TestHistoryIsSampled(t *testing.T) {
	sampled := make(chan struct{}, 100)
	f := &fake{status: func(Page) Status {
		select {
		case sampled <- struct{}{}:
		default:
		}
		return Status{Now: time.Now()}
	}}
	_, s := serve(t, f, Options{Every: time.Millisecond})
	for range 3 {
		<-sampled
	}
	s.Close()
	if n := len(s.history.figures().requests); n < 1 {
		t.Errorf("%d points, want at least 1", n)
	}
}

func TestNumberFormatting(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{number(0), "0"}, {number(999), "999"}, {number(1000), "1\u202f000"}, {number(-1234567), "-1\u202f234\u202f567"}, {number(-100), "-100"},
		{scaled(0), "0"}, {scaled(999), "999"}, {scaled(1234), "1.23 k"}, {scaled(5e6), "5 M"}, {scaled(7.5e12), "7.5 T"},
		{dollars(0), "0"}, {dollars(1), "< 0.0001"}, {dollars(12_345_678), "0.0123"}, {dollars(cost.Dollar / 2), "0.50"}, {dollars(1_994_999_999), "1.99"}, {dollars(1_995_000_000), "2.00"}, {dollars(-1_234_560 * cost.Dollar), "-1\u202f234\u202f560.00"},
		{digits(0.5), "0.5"}, {digits(12.34), "12.3"}, {digits(100.4), "100"}, {digits(3), "3"}, {digits(10), "10"},
		{size(0), "0 B"}, {size(1023), "1023 B"}, {size(1 << 20), "1 MiB"}, {size(1536 << 20), "1.5 GiB"}, {size(1 << 50), "1024 TiB"},
		{period(0), "0"}, {period(0.0123), "12.3 ms"}, {period(1.5), "1.5 s"}, {period(119), "119 s"}, {period(125), "2 min"}, {period(3700), "1 h 1 min"}, {period(200000), "2 d 7 h"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
