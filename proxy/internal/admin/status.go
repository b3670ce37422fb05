package admin

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Status is the state of the gateway at one time, and the document at /status.
type Status struct {
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	Uptime  float64   `json:"uptime_seconds"`
	Ready   bool      `json:"ready"`
	Reason  string    `json:"reason,omitempty"` // why it is not ready

	Page Page `json:"page"` // of models, keys, teams and budgets, and of the targets of each provider

	Config      Config   `json:"config"`
	Requests    Requests `json:"requests"`
	Clients     Clients  `json:"clients"`
	Models      []Model  `json:"models"`
	ModelsTotal int      `json:"models_total"`

	ModelsListed int `json:"models_listed"` // of them, those that are not configured but listed by providers; they come last

	Keys      []Key `json:"keys"`
	KeysTotal int   `json:"keys_total"`

	Teams      []Team `json:"teams"`
	TeamsTotal int    `json:"teams_total"`

	Budgets      []Budget `json:"budgets"` // of keys, teams, models and providers, those that refuse requests and then the most spent first
	BudgetsTotal int      `json:"budgets_total"`

	Store *Store `json:"store,omitempty"` // nil: the gateway shares no limits with others

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
	LastReload  time.Time `json:"last_reload"`            // or the start
	ReloadError string    `json:"reload_error,omitempty"` // of the last one
}

// Requests are totals since the start, and gauges.
type Requests struct {
	Total        int64 `json:"total"`
	ClientErrors int64 `json:"client_errors"`
	ServerErrors int64 `json:"server_errors"` // error responses, and streams that failed
	Disconnects  int64 `json:"departed"`      // client disconnects

	InFlight int64 `json:"in_flight"`
	Streams  int64 `json:"streams"`

	Completions    int64 `json:"completions"` // in flight, including streams
	CompletionsMax int64 `json:"completions_max"`
	Bodies         int64 `json:"body_memory_bytes"` // held by large requests and non-streaming responses
	BodiesMax      int64 `json:"body_memory_max_bytes"`

	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`

	Cost *cost.Nano `json:"cost_usd,omitempty"` // nil: no request had a price

	FirstEvents       int64   `json:"first_events"` // responses with a first event
	FirstEventSeconds float64 `json:"first_event_seconds"`

	FirstEvent Percentiles `json:"first_event_percentiles_seconds"`
	Duration   Percentiles `json:"duration_percentiles_seconds"` // of requests that reached a provider

	Statuses map[string]int64 `json:"statuses"` // by HTTP status
	Refused  map[string]int64 `json:"refused"`  // rejected keys, by reason
	Shed     map[string]int64 `json:"shed"`     // by exhausted resource

	Heartbeats int64 `json:"heartbeats"`
	Panics     int64 `json:"panics"`
}

// Clients are the client connections.
type Clients struct {
	Open int `json:"open"`
	Max  int `json:"max"`
}

// Percentiles are estimated from the buckets of a histogram; 0 without observations.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Model is a model that clients can request.
type Model struct {
	ID      string   `json:"id"`
	Off     string   `json:"off,omitempty"`    // why
	Listed  bool     `json:"listed,omitempty"` // by its provider, and not configured: it is counted with all others of that kind
	Targets []Target `json:"targets"`
	Canary  *Canary  `json:"canary,omitempty"`
	Shadows []Shadow `json:"shadows,omitempty"`

	Counts
	Failed     int64       `json:"failed"` // of the errors, those that were not the client's fault
	FirstEvent Percentiles `json:"first_event_percentiles_seconds"`
	Duration   Percentiles `json:"duration_percentiles_seconds"`
}

// Counts are those of a model, a key or a team since the start.
type Counts struct {
	Requests         int64            `json:"requests"`
	Errors           int64            `json:"errors"` // error responses, and streams that failed
	PromptTokens     int64            `json:"prompt_tokens"`
	CompletionTokens int64            `json:"completion_tokens"`
	CachedTokens     int64            `json:"cached_tokens"`      // part of the prompt
	CacheWriteTokens int64            `json:"cache_write_tokens"` // part of the prompt
	ReasoningTokens  int64            `json:"reasoning_tokens"`   // part of the completion
	Cost             *cost.Nano       `json:"cost_usd,omitempty"` // nil: no request had a price
	Rejected         map[string]int64 `json:"rejected"`           // requests that a limit or a budget refused, of a key also for other reasons
}

// Canary is a target that a growing share of a model's requests tries first.
type Canary struct {
	Provider   string     `json:"provider"`
	Model      string     `json:"model"`
	Step       int        `json:"step"` // from 1
	Steps      int        `json:"steps"`
	Share      float64    `json:"share"` // of the requests; 0: rolled back
	Began      time.Time  `json:"step_began"`
	Attempts   int64      `json:"attempts"` // that are counted for the step
	Errors     int64      `json:"errors"`   // of them
	Traps      int64      `json:"traps"`    // of the plugin, since the first step
	RolledBack *time.Time `json:"rolled_back,omitempty"`
	Reason     string     `json:"reason,omitempty"` // why
}

// Shadow is a target that gets copies of a share of a model's requests, and what came of them.
type Shadow struct {
	Provider    string           `json:"provider"`
	Model       string           `json:"model"`
	Off         bool             `json:"off,omitempty"` // its provider is
	Share       float64          `json:"share"`         // of the requests
	Requests    int64            `json:"requests"`      // copies, sent or not
	Outcomes    map[string]int64 `json:"outcomes"`      // of them
	Compared    int64            `json:"compared"`
	Differences map[string]int64 `json:"differences"`                 // compared copies, by kind
	FirstEvent  float64          `json:"first_event_ratio,omitempty"` // time of the shadow by that of the client; 0: unknown
	Duration    float64          `json:"duration_ratio,omitempty"`    // the same, to the end of the response
	Cost        cost.Nano        `json:"cost_usd"`
}

// Key is a client key.
type Key struct {
	Name  string `json:"name"`
	Team  string `json:"team,omitempty"`
	State string `json:"state,omitempty"` // why it is not valid
	Counts
}

// Team is a team with the sums of its keys.
type Team struct {
	Name string `json:"name"`
	Keys int    `json:"keys"`
	Counts
}

// Budget is a budget in its current window.
type Budget struct {
	Scope   string     `json:"scope"` // key, team, model or provider
	Name    string     `json:"name"`
	Per     string     `json:"per"`                    // the length of its windows: minute, hour, day, week, month, or total
	Start   *time.Time `json:"window_start,omitempty"` // nil: the window has no start and no end
	End     *time.Time `json:"window_end,omitempty"`
	Limit   cost.Nano  `json:"limit_usd"` // with what it was raised by in this window
	Raised  cost.Nano  `json:"raised_usd"`
	Spent   cost.Nano  `json:"spent_usd"`
	Held    cost.Nano  `json:"held_usd"` // by requests in flight: the most that they can cost; an estimate of a budget that is not strict
	Left    cost.Nano  `json:"left_usd"` // for further requests
	Used    float64    `json:"used"`     // share of the limit that is spent
	State   string     `json:"state"`    // ok, warned, or refusing
	Warn    float64    `json:"warn,omitempty"`
	Strict  bool       `json:"strict"`
	Refused int64      `json:"refused"` // requests in the window that it had too little left for
}

// DescribeBudget returns a budget as operators see it.
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

// Target is an endpoint of a provider.
type Target struct {
	Provider  string  `json:"provider"`
	Model     string  `json:"model"`
	Off       bool    `json:"off,omitempty"` // the provider is off
	Fallback  bool    `json:"fallback,omitempty"`
	State     string  `json:"state"` // healthy, retrying or open; "" where the provider is off
	InFlight  int64   `json:"in_flight"`
	Latency   float64 `json:"first_event_seconds"` // moving average; 0: unknown
	ErrorRate float64 `json:"error_ratio"`         // moving average, 0 to 1
	Answered  int64   `json:"answered"`
	Failed    int64   `json:"failed"`
	Failures  int     `json:"consecutive_failures"`

	// Of an open target: when the next request tries it again, from then on, and whether its own rate limit is the reason.
	Until       *time.Time `json:"until,omitempty"`
	RateLimited bool       `json:"rate_limited,omitempty"`

	LastError *TargetError `json:"last_error,omitempty"`
}

// The states of a target.
const (
	StateHealthy  = "healthy"
	StateRetrying = "retrying" // a trial request is in flight, or has closed the circuit and nothing has succeeded since
	StateOpen     = "open"     // the circuit is open, or the target asked not to be used for some time
)

// TargetError is the last error of a target.
type TargetError struct {
	At   time.Time `json:"at"`
	Code string    `json:"code"`
	Text string    `json:"text"` // without anything that a client or a provider sent
}

// Provider is a configured provider.
type Provider struct {
	Name         string   `json:"name"`
	Plugin       string   `json:"plugin"`
	Off          string   `json:"off,omitempty"` // why
	Targets      []Target `json:"targets"`       // each configured model once
	TargetsTotal int      `json:"targets_total"`

	Used    int    `json:"connections_used"`
	Idle    int    `json:"connections_idle"`
	Max     int    `json:"connections_max"`
	Waiting int    `json:"waiting"`
	Dialled uint64 `json:"connects"`
	Reused  uint64 `json:"reuses"`
	Stale   uint64 `json:"stale"`
	Retried uint64 `json:"retries"`
}

// Plugin is a plugin, including older generations.
type Plugin struct {
	Name        string           `json:"name"`
	Calls       int64            `json:"calls"`
	Failures    int64            `json:"failures"`
	Kinds       map[string]int64 `json:"failures_by_kind"`
	Retries     int64            `json:"retries"`
	Fuel        int64            `json:"fuel"`
	Unknown     int64            `json:"unknown"`
	Breaker     string           `json:"breaker"`
	Open        bool             `json:"breaker_open"` // for all client keys, or for some
	Opened      int64            `json:"breaker_opened"`
	Used        int              `json:"instances_used"`
	Idle        int              `json:"instances_idle"`
	Waiting     int              `json:"waiting"`
	Memory      int64            `json:"idle_memory_bytes"`
	Generations int              `json:"generations"`
}

// Process is the resource usage of the process.
type Process struct {
	Memory     int64 `json:"memory_bytes"`       // resident
	Heap       int64 `json:"heap_bytes"`         // live and dead Go objects
	Limit      int64 `json:"memory_limit_bytes"` // of the Go runtime; 0: none
	Goroutines int64 `json:"goroutines"`
	LogDropped int64 `json:"log_lines_dropped"`
}
