package admin

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Status is a snapshot of the gateway's state, and the document at /status.
type Status struct {
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	Uptime  float64   `json:"uptime_seconds"`
	Ready   bool      `json:"ready"`
	Reason  string    `json:"reason,omitempty"` // why it is not ready

	Page Page `json:"page"` // included part of models, keys, teams, budgets, and each provider's targets

	Config      Config   `json:"config"`
	Requests    Requests `json:"requests"`
	Clients     Clients  `json:"clients"`
	Models      []Model  `json:"models"`
	ModelsTotal int      `json:"models_total"`

	ModelsListed int `json:"models_listed"` // models listed by providers, which follow the configured ones

	Keys      []Key `json:"keys"`
	KeysTotal int   `json:"keys_total"`

	Teams      []Team `json:"teams"`
	TeamsTotal int    `json:"teams_total"`

	Budgets      []Budget `json:"budgets"` // those that reject requests first, then by use in descending order
	BudgetsTotal int      `json:"budgets_total"`

	Store *Store `json:"store,omitempty"` // nil if the gateway has no store of shared limits

	Bundle *Bundle `json:"bundle,omitempty"` // nil if the gateway follows no bundle

	Providers []Provider `json:"providers"`
	Plugins   []Plugin   `json:"plugins"`
	Process   Process    `json:"process"`
}

// Config is the current configuration and the result of the last reload.
type Config struct {
	File        string    `json:"file"`
	Generation  int64     `json:"generation"` // starts at 1
	Loaded      time.Time `json:"loaded"`
	Open        int       `json:"generations_open"` // including older ones that requests in flight still use
	Reloads     int64     `json:"reloads"`
	Failed      int64     `json:"reloads_failed"`
	LastReload  time.Time `json:"last_reload"`            // time of the start if there was none
	ReloadError string    `json:"reload_error,omitempty"` // error of the last reload
}

// Requests are totals since the start, and current values.
type Requests struct {
	Total        int64 `json:"total"`
	ClientErrors int64 `json:"client_errors"`
	ServerErrors int64 `json:"server_errors"` // error responses, and streams that failed
	Disconnects  int64 `json:"departed"`      // client disconnects

	InFlight int64 `json:"in_flight"`
	Streams  int64 `json:"streams"`

	Completions    int64 `json:"completions"` // in flight, including streams
	CompletionsMax int64 `json:"completions_max"`
	Bodies         int64 `json:"body_memory_bytes"` // memory held for large requests and non-streaming responses
	BodiesMax      int64 `json:"body_memory_max_bytes"`

	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`

	Cost *cost.Nano `json:"cost_usd,omitempty"` // nil if no request had a price

	FirstEvents       int64   `json:"first_events"`        // number of responses with a first event
	FirstEventSeconds float64 `json:"first_event_seconds"` // sum of their times to the first event

	FirstEvent Percentiles `json:"first_event_percentiles_seconds"`
	Duration   Percentiles `json:"duration_percentiles_seconds"` // of requests that reached a provider

	Statuses map[string]int64 `json:"statuses"` // responses by HTTP status
	Refused  map[string]int64 `json:"refused"`  // requests with a rejected key, by reason
	Shed     map[string]int64 `json:"shed"`     // requests rejected for lack of capacity, by resource

	Heartbeats int64 `json:"heartbeats"`
	Panics     int64 `json:"panics"`
}

// Clients are the client connections.
type Clients struct {
	Open int `json:"open"`
	Max  int `json:"max"`
}

// Percentiles are estimates from the buckets of a histogram. They are 0 without observations.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Model is a model that clients can request.
type Model struct {
	ID      string   `json:"id"`
	Off     string   `json:"off,omitempty"`    // why the model is off; "" if it is on
	Listed  bool     `json:"listed,omitempty"` // listed by a provider, not configured, and without counts of its own
	Targets []Target `json:"targets"`
	Canary  *Canary  `json:"canary,omitempty"`
	Shadows []Shadow `json:"shadows,omitempty"`

	Counts
	Failed     int64       `json:"failed"` // errors, among Errors, that were not the client's fault
	FirstEvent Percentiles `json:"first_event_percentiles_seconds"`
	Duration   Percentiles `json:"duration_percentiles_seconds"`
}

// Counts are the counts of a model, key or team since the start.
type Counts struct {
	Requests         int64            `json:"requests"`
	Errors           int64            `json:"errors"` // error responses, and streams that failed
	PromptTokens     int64            `json:"prompt_tokens"`
	CompletionTokens int64            `json:"completion_tokens"`
	CachedTokens     int64            `json:"cached_tokens"`      // part of the prompt
	CacheWriteTokens int64            `json:"cache_write_tokens"` // part of the prompt
	ReasoningTokens  int64            `json:"reasoning_tokens"`   // part of the completion
	Cost             *cost.Nano       `json:"cost_usd,omitempty"` // nil if no request had a price
	Rejected         map[string]int64 `json:"rejected"`           // rejected requests, by reason
}

// Canary is a target that a growing share of a model's requests tries first.
type Canary struct {
	Provider   string     `json:"provider"`
	Model      string     `json:"model"`
	Step       int        `json:"step"` // from 1
	Steps      int        `json:"steps"`
	Share      float64    `json:"share"` // share of the requests; 0 if rolled back
	Began      time.Time  `json:"step_began"`
	Attempts   int64      `json:"attempts"` // attempts counted for the step
	Errors     int64      `json:"errors"`   // failed attempts
	Traps      int64      `json:"traps"`    // traps of the plugin since the first step
	RolledBack *time.Time `json:"rolled_back,omitempty"`
	Reason     string     `json:"reason,omitempty"` // why the canary was rolled back
}

// Shadow is a target that receives copies of a share of a model's requests. Ratios are the shadow's value divided by
// the client's.
type Shadow struct {
	Provider    string           `json:"provider"`
	Model       string           `json:"model"`
	Off         bool             `json:"off,omitempty"` // the provider is off
	Share       float64          `json:"share"`         // share of the requests
	Requests    int64            `json:"requests"`      // copies, sent or not
	Outcomes    map[string]int64 `json:"outcomes"`      // copies by outcome
	Compared    int64            `json:"compared"`
	Differences map[string]int64 `json:"differences"`                 // compared copies by kind of difference
	FirstEvent  float64          `json:"first_event_ratio,omitempty"` // of the times to the first event; 0 if unknown
	Duration    float64          `json:"duration_ratio,omitempty"`    // of the durations of the response; 0 if unknown
	Cost        cost.Nano        `json:"cost_usd"`
}

// Key is a client key.
type Key struct {
	Name  string `json:"name"`
	Team  string `json:"team,omitempty"`
	State string `json:"state,omitempty"` // why the key is not valid; "" if it is
	Counts
}

// Team is a team with the sums over its keys.
type Team struct {
	Name string `json:"name"`
	Keys int    `json:"keys"`
	Counts
}

// Budget is a budget in its current window.
type Budget struct {
	Scope   string     `json:"scope"` // key, team, model or provider
	Name    string     `json:"name"`
	Per     string     `json:"per"`                    // length of the window: minute, hour, day, week, month or total
	Start   *time.Time `json:"window_start,omitempty"` // nil for total, like End
	End     *time.Time `json:"window_end,omitempty"`
	Limit   cost.Nano  `json:"limit_usd"`  // including Raised
	Raised  cost.Nano  `json:"raised_usd"` // by operators, in this window
	Spent   cost.Nano  `json:"spent_usd"`
	Held    cost.Nano  `json:"held_usd"` // maximum cost of requests in flight; an estimate if the budget is not strict
	Left    cost.Nano  `json:"left_usd"` // available to further requests
	Used    float64    `json:"used"`     // share of the limit that is spent
	State   string     `json:"state"`    // ok, warned or refusing
	Warn    float64    `json:"warn,omitempty"`
	Strict  bool       `json:"strict"`
	Refused int64      `json:"refused"` // requests rejected in this window because too little was left
}

// DescribeBudget describes a budget for operators.
func DescribeBudget(s *spend.Status) Budget {
	b := Budget{
		Scope: s.Scope.Kind.String(), Name: s.Scope.Name, Per: s.Per.String(), Limit: s.Limit, Raised: s.Raised, Spent: s.Spent, Held: s.Held, Left: s.Left(), Used: s.Used(),
		State: s.State(), Warn: s.Warn, Strict: s.Strict, Refused: s.Refused,
	}
	if !s.End.IsZero() {
		b.Start, b.End = &s.Start, &s.End
	}
	return b
}

// Target is a provider's model that requests are sent to.
type Target struct {
	Provider  string  `json:"provider"`
	Model     string  `json:"model"`
	Off       bool    `json:"off,omitempty"` // the provider is off
	Fallback  bool    `json:"fallback,omitempty"`
	State     string  `json:"state"` // healthy, retrying or open; "" if the provider is off
	InFlight  int64   `json:"in_flight"`
	Latency   float64 `json:"first_event_seconds"` // moving average; 0 if unknown
	ErrorRate float64 `json:"error_ratio"`         // moving average, 0 to 1
	Answered  int64   `json:"answered"`
	Failed    int64   `json:"failed"`
	Failures  int     `json:"consecutive_failures"`

	Until       *time.Time `json:"until,omitempty"`        // end of the open state; then the next request is a trial
	RateLimited bool       `json:"rate_limited,omitempty"` // the target is open because of the provider's rate limit

	LastError *TargetError `json:"last_error,omitempty"`
}

// The states of a target.
const (
	StateHealthy  = "healthy"
	StateRetrying = "retrying" // a trial is in flight, or has closed the circuit without a success since
	StateOpen     = "open"     // the circuit is open, or the target is in cooldown
)

// TargetError is the last error of a target.
type TargetError struct {
	At   time.Time `json:"at"`
	Code string    `json:"code"`
	Text string    `json:"text"` // contains nothing that a client or provider has sent
}

// Provider is a configured provider.
type Provider struct {
	Name         string   `json:"name"`
	Plugin       string   `json:"plugin"`
	Off          string   `json:"off,omitempty"` // why the provider is off; "" if it is on
	Targets      []Target `json:"targets"`       // configured targets, each model once
	TargetsTotal int      `json:"targets_total"`

	Used    int    `json:"connections_used"`
	Idle    int    `json:"connections_idle"`
	Max     int    `json:"connections_max"`
	Waiting int    `json:"waiting"` // requests waiting for a connection
	Dialled uint64 `json:"connects"`
	Reused  uint64 `json:"reuses"`
	Stale   uint64 `json:"stale"`
	Retried uint64 `json:"retries"`
}

// Plugin is a plugin, summed over its generations.
type Plugin struct {
	Name        string           `json:"name"`
	Calls       int64            `json:"calls"`
	Failures    int64            `json:"failures"`
	Kinds       map[string]int64 `json:"failures_by_kind"`
	Retries     int64            `json:"retries"`
	Fuel        int64            `json:"fuel"`
	Unknown     int64            `json:"unknown"`
	Breaker     string           `json:"breaker"`
	Open        bool             `json:"breaker_open"` // for some or all client keys
	Opened      int64            `json:"breaker_opened"`
	Used        int              `json:"instances_used"`
	Idle        int              `json:"instances_idle"`
	Waiting     int              `json:"waiting"`
	Memory      int64            `json:"idle_memory_bytes"`
	Generations int              `json:"generations"`
}

// Bundle is the bundle that the gateway serves, and the rollout that it follows.
type Bundle struct {
	Node      string          `json:"node"` // name in stages
	Tags      []string        `json:"tags"`
	Source    string          `json:"source"`
	Digest    string          `json:"digest"`           // of the bundle that is served
	Trial     bool            `json:"trial"`            // it is on trial
	Good      string          `json:"good"`             // digest of the last bundle that has passed its trial
	Sequence  int64           `json:"sequence"`         // of the rollout
	Next      string          `json:"next"`             // digest of the rollout's next bundle
	Expires   time.Time       `json:"expires"`          // of the rollout
	Polled    *time.Time      `json:"polled,omitempty"` // when the source responded last; nil for not since the start
	Rollbacks int64           `json:"rollbacks"`        // trials that ended with the previous bundle
	Refused   []RefusedBundle `json:"refused"`
	Alarms    []string        `json:"alarms"` // what does not work
}

// RefusedBundle is a bundle that is not tried again.
type RefusedBundle struct {
	Digest string `json:"digest"`
	Reason string `json:"reason"`
}

// Process is the resource usage of the process.
type Process struct {
	Memory     int64 `json:"memory_bytes"`       // resident
	Heap       int64 `json:"heap_bytes"`         // Go objects, live or not yet swept
	Limit      int64 `json:"memory_limit_bytes"` // memory limit of the Go runtime; 0 if there is none
	Goroutines int64 `json:"goroutines"`
	LogDropped int64 `json:"log_lines_dropped"`
}
