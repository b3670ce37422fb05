package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// recentRequest is a request as /requests describes it.
type recentRequest struct {
	Gateway string `json:"gateway"`

	Time          time.Time   `json:"time"`
	State         string      `json:"state"`
	Request       string      `json:"request"`
	Method        string      `json:"method"`
	Path          string      `json:"path"`
	Status        int         `json:"status"`
	Duration      float64     `json:"duration_ms"`
	Remote        string      `json:"remote"`
	Trace         string      `json:"traceparent"`
	Key           string      `json:"key"`
	Team          string      `json:"team"`
	Identity      string      `json:"identity"`
	User          string      `json:"user"`
	Code          string      `json:"code"`
	Cause         string      `json:"cause"`
	Model         string      `json:"model"`
	Provider      string      `json:"provider"`
	Target        string      `json:"target"`
	Rule          string      `json:"rule"`
	Upstream      string      `json:"upstream_request"`
	Response      string      `json:"response"`
	Stream        bool        `json:"stream"`
	Complete      bool        `json:"complete"`
	Attempts      int         `json:"attempts"`
	FirstEvent    float64     `json:"first_event_ms"`
	Prompt        int64       `json:"prompt_tokens"`
	Completion    int64       `json:"completion_tokens"`
	Cached        int64       `json:"cached_tokens"`
	CacheWrite    int64       `json:"cache_write_tokens"`
	Reasoning     int64       `json:"reasoning_tokens"`
	Estimated     bool        `json:"usage_estimated"`
	Cost          json.Number `json:"cost"`
	UnusedCost    json.Number `json:"unused_cost"`
	UncertainCost json.Number `json:"uncertain_cost"`
	Fuel          int64       `json:"fuel"`
	Tags          string      `json:"tags"`
	Warnings      string      `json:"warnings"`
	Route         string      `json:"route"`
	Generation    int64       `json:"generation"`
	Shadow        bool        `json:"shadow"`
	Tries         []recentTry `json:"tries"`
	Filters       []recentUse `json:"filters"`
	raw           json.RawMessage
}

// recentTry is an attempt of a recentRequest.
type recentTry struct {
	Attempt    int     `json:"attempt"`
	Provider   string  `json:"provider"`
	Target     string  `json:"target"`
	Why        string  `json:"why"`
	Began      float64 `json:"began_ms"`
	Duration   float64 `json:"duration_ms"`
	FirstEvent float64 `json:"first_event_ms"`
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Cause      string  `json:"cause"`
	recentUse
}

// recentUse is a plugin that a recentRequest has used.
type recentUse struct {
	Plugin   string `json:"plugin"`
	Digest   string `json:"plugin_sha256"`
	Fuel     int64  `json:"fuel"`
	Decision string `json:"decision"` // of a filter
}

// String returns the plugin with the beginning of its digest, and its fuel.
func (u *recentUse) String() string {
	text := u.Plugin
	if u.Digest != "" {
		text += "@" + u.Digest[:min(len(u.Digest), 12)]
	}
	if u.Fuel > 0 {
		text += ", fuel " + strconv.FormatInt(u.Fuel, 10)
	}
	return text
}

// UnmarshalJSON keeps the text, which is printed with --format json.
func (r *recentRequest) UnmarshalJSON(text []byte) error {
	type plain recentRequest
	r.raw = slices.Clone(text)
	return json.Unmarshal(text, (*plain)(r))
}

func (r *recentRequest) inFlight() bool { return r.State == "in_flight" }

// requestsFlags select requests.
type requestsFlags struct {
	bases                                []string
	key, model, target, status, code, id string
	since                                time.Duration
	failed, follow, byGateway            bool
	limit                                int
	format                               string
}

func newRequestsCommand(o *options) *cobra.Command {
	var f requestsFlags
	c := &cobra.Command{
		Use:   "requests",
		Short: "List the recent requests of running gateways",
		Long: "List the requests in flight and the last ones that have ended, the last one first, with their status, error code, target\n" +
			"and cost. --id shows one request with all its attempts, their causes, the routing decision, tokens and cost: by its\n" +
			"x-request-id, by the id of its response, or by the provider's id of the request. --follow prints requests as they end.\n" +
			"A gateway keeps as many requests as requests in [admin] says, in memory.\n\n" + gatewaysHelp,
		Example: "  sluice requests --failed --since 15m\n  sluice requests --id req_5wq7tdkzn4fgy --admin http://10.0.0.1:8081 --admin http://10.0.0.2:8081\n" +
			"  sluice requests --follow --key team-a --admin http://gateways.internal:8081",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.format != "table" && f.format != "json" {
				return newUsageError(c, "invalid --format %q: want table or json", f.format)
			}
			if f.follow && f.id != "" {
				return newUsageError(c, "set --id or --follow, not both")
			}
			if f.limit < 1 || f.limit > 1000 {
				return newUsageError(c, "invalid --limit %d: want 1 to 1000", f.limit)
			}
			addresses, err := o.gatewayAddresses(c, f.bases)
			if err != nil {
				return err
			}
			switch {
			case f.follow:
				return followRequests(c, addresses, &f)
			case f.id != "":
				return showRequest(c, addresses, &f)
			}
			all, err := listRequests(c, addresses, f.query())
			if err != nil {
				return err
			}
			return writeRequests(c.OutOrStdout(), all[:min(len(all), f.limit)], f.format, f.byGateway, true)
		},
	}
	gatewaysFlag(c, &f.bases)
	flags := c.Flags()
	flags.StringVar(&f.id, "id", "", "`id` of a request, of its response, or the provider's of the request")
	flags.StringVar(&f.key, "key", "", "only requests of the client key with this `name`")
	flags.StringVar(&f.model, "model", "", "only requests for the model with this `id`")
	flags.StringVar(&f.target, "target", "", "only requests with an attempt at this `target`: PROVIDER or PROVIDER/MODEL")
	flags.StringVar(&f.status, "status", "", "only requests with this `status`, such as 429 or 5xx")
	flags.StringVar(&f.code, "code", "", "only requests with this error `code`")
	flags.BoolVar(&f.failed, "failed", false, "only requests that failed, and those in flight with a failed attempt")
	flags.DurationVar(&f.since, "since", 0, "only requests that began in the last `duration`")
	flags.IntVar(&f.limit, "limit", 50, "maximum `number` of requests")
	flags.BoolVar(&f.follow, "follow", false, "print requests as they end")
	flags.BoolVar(&f.byGateway, "gateway", false, "show the gateway of each request")
	flags.StringVar(&f.format, "format", "table", "`format` of the output: table, json")
	return c
}

// query returns the query of /requests.
func (f *requestsFlags) query() url.Values {
	q := url.Values{"limit": {strconv.Itoa(f.limit)}}
	for name, value := range map[string]string{"key": f.key, "model": f.model, "target": f.target, "status": f.status, "code": f.code} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.failed {
		q.Set("failed", "true")
	}
	if f.since > 0 {
		q.Set("since", f.since.String())
	}
	return q
}

// listRequests returns the requests of all gateways that respond, those in flight first, the last one first. It prints a
// warning for each of several gateways that does not respond.
func listRequests(c *cobra.Command, addresses []string, q url.Values) (all []recentRequest, err error) {
	responses, failed := getFromAll(c.Context(), addresses, "/requests?"+q.Encode()), 0
	for i := range responses {
		r := &responses[i]
		var page struct{ Requests []recentRequest }
		if r.err == nil {
			if r.err = json.Unmarshal(r.body, &page); r.err != nil {
				r.err = fmt.Errorf("%s: %w", r.gateway, r.err)
			}
		}
		if r.err != nil {
			if failed++; failed == len(responses) {
				return nil, r.err
			}
			fmt.Fprintln(c.ErrOrStderr(), "warning:", r.err)
			continue
		}
		for k := range page.Requests {
			page.Requests[k].Gateway = r.gateway
		}
		all = append(all, page.Requests...)
	}
	slices.SortStableFunc(all, func(a, b recentRequest) int {
		if a.inFlight() != b.inFlight() {
			if a.inFlight() {
				return -1
			}
			return 1
		}
		return b.Time.Compare(a.Time)
	})
	return all, nil
}

// writeRequests writes a table, or a JSON object on each line.
func writeRequests(w io.Writer, all []recentRequest, format string, byGateway, header bool) error {
	if format == "json" {
		for i := range all {
			at, _ := json.Marshal(all[i].Gateway) // does not fail for a string
			if _, err := fmt.Fprintf(w, "{\"gateway\":%s,%s\n", at, bytes.TrimPrefix(all[i].raw, []byte("{"))); err != nil {
				return err
			}
		}
		return nil
	}
	out := bufio.NewWriter(w)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = cmp.Or(strings.Map(printableRune, cells[i]), "-")
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if header {
		columns := []string{"time", "status", "code", "key", "model", "target", "attempts", "first_event", "duration", "tokens", "usd", "request"}
		if byGateway {
			columns = append(columns, "gateway")
		}
		row(columns...)
	}
	for i := range all {
		r := &all[i]
		status, duration := strconv.Itoa(r.Status), milliseconds(r.Duration)
		if r.inFlight() {
			status = "running"
		}
		cells := []string{
			r.Time.Local().Format("01-02 15:04:05.000"), status, r.Code, r.Key, r.Model, r.lastTarget(), strconv.Itoa(r.Attempts),
			milliseconds(r.FirstEvent), duration, strconv.FormatInt(r.Prompt+r.Completion, 10), r.Cost.String(), r.Request,
		}
		if byGateway {
			cells = append(cells, r.Gateway)
		}
		row(cells...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return out.Flush()
}

// printableRune replaces characters that could change what a terminal shows.
func printableRune(r rune) rune {
	if !unicode.IsPrint(r) {
		return '?'
	}
	return r
}

// lastTarget returns the target that responded, or that was tried last.
func (r *recentRequest) lastTarget() string {
	provider, model := r.Provider, r.Target
	if n := len(r.Tries); provider == "" && n > 0 {
		provider, model = r.Tries[n-1].Provider, r.Tries[n-1].Target
	}
	if provider == "" {
		return ""
	}
	name := provider + "/" + model
	if r.Shadow {
		name += " (shadow)"
	}
	return name
}

// milliseconds formats a number of milliseconds, "" for 0.
func milliseconds(ms float64) string {
	if ms == 0 {
		return ""
	}
	d := time.Duration(ms * float64(time.Millisecond))
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// showRequest prints the requests that have an ID, from all gateways.
func showRequest(c *cobra.Command, addresses []string, f *requestsFlags) error {
	all, err := listRequests(c, addresses, url.Values{"id": {f.id}, "limit": {"1000"}})
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return fmt.Errorf("no recent request has the id %q", f.id)
	case f.format == "json":
		return writeRequests(c.OutOrStdout(), all, f.format, true, false)
	}
	out := bufio.NewWriter(c.OutOrStdout())
	for i := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		all[i].describe(out)
	}
	return out.Flush()
}

// describe writes all that is known of a request.
func (r *recentRequest) describe(w io.Writer) {
	line := func(name, form string, args ...any) {
		text := strings.Join(strings.Fields(strings.Map(printableRune, fmt.Sprintf(form, args...))), " ")
		fmt.Fprintf(w, "%-10s %s\n", name, text)
	}
	optional := func(label, value string) string {
		if value == "" {
			return ""
		}
		return label + value
	}
	line("request", "%s at %s", r.Request, r.Gateway)
	ended := "ended after " + milliseconds(r.Duration)
	if r.inFlight() {
		ended = "in flight for " + milliseconds(r.Duration)
	}
	line("time", "%s, %s%s", r.Time.Local().Format("2006-01-02 15:04:05.000 -07:00"), ended, optional(", first event after ", milliseconds(r.FirstEvent)))
	client := "key "
	if r.Identity != "" {
		client = "principal by " + r.Identity + ": "
	}
	line("client", "%s %s %s %s %s %s", r.Method, r.Path, optional(client, r.Key), optional("user ", r.User), optional("team ", r.Team), optional("from ", r.Remote))
	if !r.inFlight() {
		line("status", "%d %s%s", r.Status, r.Code, optional(": ", r.Cause))
	}
	if r.Model != "" {
		kind := "non-streaming"
		if r.Stream {
			kind = "stream"
		}
		if !r.Complete && !r.inFlight() {
			kind += ", incomplete"
		}
		if r.Shadow {
			kind += ", shadow copy"
		}
		line("model", "%s%s, %s", r.Model, optional(", rule ", r.Rule), kind)
	}
	if r.Response != "" {
		line("response", "%s", r.Response)
	}
	if r.Trace != "" {
		line("trace", "%s", r.Trace)
	}
	for i := range r.Filters {
		f := &r.Filters[i]
		line("filter "+strconv.Itoa(i+1), "%s: %s", f, strings.ReplaceAll(f.Decision, "_", " "))
	}
	for i := range r.Tries {
		t := &r.Tries[i]
		outcome := cmp.Or(t.Code, "succeeded")
		if t.Code == "" && r.inFlight() {
			outcome = "under way"
		}
		status := ""
		if t.Status != 0 {
			status = strconv.Itoa(t.Status) + " "
		}
		line("attempt "+strconv.Itoa(t.Attempt), "%s/%s%s after %s for %s%s: %s%s%s", t.Provider, t.Target, optional(" as ", t.Why), cmp.Or(milliseconds(t.Began), "0ms"),
			cmp.Or(milliseconds(t.Duration), "0ms"), optional(", first event after ", milliseconds(t.FirstEvent)), status, outcome, optional(": ", t.Cause)+optional("; plugin ", t.String()))
	}
	if r.Route != "" {
		line("route", "%s", r.Route)
	}
	if r.Upstream != "" {
		line("provider", "request %s", r.Upstream)
	}
	if r.Prompt+r.Completion > 0 {
		line("tokens", "%d prompt (%d cached, %d written to the cache), %d completion (%d reasoning)%s", r.Prompt, r.Cached, r.CacheWrite, r.Completion, r.Reasoning,
			map[bool]string{true: ", estimated"}[r.Estimated])
	}
	if r.Cost != "" {
		line("cost", "%s USD%s%s", r.Cost, optional(", unused attempts ", r.UnusedCost.String()), optional(", uncertain ", r.UncertainCost.String()))
	}
	if r.Fuel > 0 {
		line("fuel", "%d", r.Fuel)
	}
	if r.Tags != "" {
		line("tags", "%s", r.Tags)
	}
	if r.Warnings != "" {
		line("warnings", "%s", r.Warnings)
	}
	if r.Generation > 0 {
		line("config", "generation %d", r.Generation)
	}
}

// followRequests prints requests as they end, until the context ends or a gateway closes its stream.
func followRequests(c *cobra.Command, addresses []string, f *requestsFlags) error {
	type event struct {
		gateway  string
		requests []recentRequest
		lost     int
		err      error
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	events := make(chan event)
	for _, at := range addresses {
		go func() {
			err := readStream(ctx, "http://"+at+"/requests/stream?"+f.query().Encode(), func(data []byte) error {
				var page struct {
					Requests []recentRequest
					Lost     int
				}
				if err := json.Unmarshal(data, &page); err != nil {
					return err
				}
				for i := range page.Requests {
					page.Requests[i].Gateway = at
				}
				select {
				case events <- event{at, page.Requests, page.Lost, nil}:
				case <-ctx.Done():
				}
				return nil
			})
			select {
			case events <- event{gateway: at, err: err}:
			case <-ctx.Done():
			}
		}()
	}
	for running := len(addresses); running > 0; {
		e := <-events
		if e.err != nil {
			running--
			if errors.Is(e.err, context.Canceled) {
				return nil
			}
			if running == 0 {
				return e.err
			}
			fmt.Fprintln(c.ErrOrStderr(), "warning:", e.err)
			continue
		}
		if e.lost > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s: %d requests are not shown\n", e.gateway, e.lost)
		}
		if err := writeRequests(c.OutOrStdout(), e.requests, f.format, f.byGateway, false); err != nil {
			return err
		}
	}
	return nil
}

// maxEvent is the maximum size of an event of a stream of requests.
const maxEvent = 4 << 20

// readStream reads server-sent events, and calls f with the data of each. It returns an error when the stream has ended.
func readStream(ctx context.Context, address string, f func(data []byte) error) error {
	resp, err := openAdmin(ctx, address, gatewaysTimeout)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxHealthBody))
		return &statusError{strings.TrimPrefix(address, "http://"), resp.StatusCode, strings.TrimSpace(string(body))}
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if more, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = append(append(data, more...), '\n')
		}
		if len(line) == 0 && len(data) > 0 {
			if err := f(data); err != nil {
				return err
			}
			data = data[:0]
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return fmt.Errorf("%s: the gateway has closed the stream", address)
}
