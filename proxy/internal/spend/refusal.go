package spend

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// LimitKind is a kind of limit.
type LimitKind uint8

// The limits.
const (
	LimitRequests   LimitKind = iota // requests per minute
	LimitTokens                      // tokens per minute
	LimitConcurrent                  // requests in flight
	LimitBudget                      // money
)

var limitNames = [...]string{
	LimitRequests: "requests_per_minute", LimitTokens: "tokens_per_minute", LimitConcurrent: "concurrent", LimitBudget: "budgets",
}

// String returns the limit's name in the configuration.
func (l LimitKind) String() string { return limitNames[l] }

// LimitError names the limit that a request exceeds, for the log.
type LimitError struct {
	Scope Scope
	Limit LimitKind
	Value int64         // the limit; in nano-dollars for a budget
	Per   config.Period // period of the budget
	Until time.Time     // end of the budget's window; zero if it has none
	Held  bool          // the budget would suffice without the holds of requests in flight and, if it is shared, of other gateways
}

func (e *LimitError) Error() string {
	switch {
	case e.Limit != LimitBudget:
		return fmt.Sprintf("limits.%s = %d of %s is reached", e.Limit, e.Value, e.Scope)
	case e.Held:
		return fmt.Sprintf("budget per %s of %s is held by requests in flight", e.Per, e.Scope)
	}
	return fmt.Sprintf("budget per %s of %s is spent", e.Per, e.Scope)
}

// name returns the scope's name in messages to clients, which do not contain the name of the client's own key.
func (s Scope) name() string {
	if s.Kind == Key {
		return "key"
	}
	return s.Kind.String() + " " + s.Name
}

func (a *Account) rateLimited(l LimitKind, wait time.Duration, remaining, needed int64) *apierror.Error {
	cause := &LimitError{Scope: a.scope, Limit: l, Value: [...]int64{a.limits.RequestsPerMinute, a.limits.TokensPerMinute, a.limits.Concurrent}[l]}
	e := apierror.Invalid("rate_limit_exceeded", "", "")
	e.Status, e.Kind, e.RetryAfter, e.Cause = 429, apierror.KindRateLimit, wait, cause
	what := [...]string{"requests per minute", "tokens per minute", "concurrent requests"}[l]
	switch own := a.scope.Kind == Key; {
	case !own && l == LimitConcurrent:
		e.Message = fmt.Sprintf("The %s has reached its limit of %s.", a.scope.name(), what)
	case !own:
		e.Message = fmt.Sprintf("The %s has reached its limit of %s. Retry in %s.", a.scope.name(), what, wait)
	case l == LimitConcurrent:
		e.Message = fmt.Sprintf("The key is limited to %d %s.", cause.Value, what)
	case l == LimitRequests:
		e.Message = fmt.Sprintf("The key is limited to %d %s. Retry in %s.", cause.Value, what, wait)
	default:
		e.Message = fmt.Sprintf("The key is limited to %d %s: %d remain, and the request may need %d. Retry in %s.", cause.Value, what, remaining, needed, wait)
	}
	return e
}

func (a *Account) promptTooLong(prompt int64) *apierror.Error {
	e := a.rateLimited(LimitTokens, 0, 0, 0)
	e.NoRetry = true
	e.Message = fmt.Sprintf("The %s is limited to fewer tokens per minute than the prompt has, which are about %d.", a.scope.name(), prompt)
	if a.scope.Kind == Key {
		e.Message = fmt.Sprintf("The key is limited to %d tokens per minute, and the prompt has about %d.", a.limits.TokensPerMinute, prompt)
	}
	return e
}

// spent returns the error for a request that needs more than is left of a budget. If the request would fit without the
// holds of other requests, the client may retry.
func (a *Account) spent(b *config.Budget, w *window, need cost.Nano) *apierror.Error {
	w.refused++
	cause := &LimitError{Scope: a.scope, Limit: LimitBudget, Value: int64(b.Limit), Per: b.Per, Until: w.end}
	cause.Held = need <= b.Limit+w.credit-w.spent-w.others
	e := apierror.Invalid("insufficient_quota", "", "")
	e.Status, e.Cause = 429, cause
	switch {
	case cause.Held:
		e.Code, e.Kind, e.RetryAfter = "rate_limit_exceeded", apierror.KindRateLimit, time.Second
		e.Message = fmt.Sprintf("What is left of the budget of the %s is held by requests in flight.", a.scope.name())
		if a.sharesBudget(b) {
			e.Message = fmt.Sprintf("What is left of the budget of the %s is held by requests in flight, or by other gateways.", a.scope.name())
		}
	case b.Per == config.PerTotal:
		e.Kind, e.NoRetry = apierror.KindInsufficientQuota, true
		e.Message = fmt.Sprintf("The budget of the %s is spent.", a.scope.name())
	default:
		e.Kind, e.NoRetry = apierror.KindInsufficientQuota, true
		e.Message = fmt.Sprintf("The budget of the %s per %s is spent. The next %s begins at %s.", a.scope.name(), b.Per, b.Per, w.end.UTC().Format(time.RFC3339))
	}
	return e
}

// unavailable returns the error for a request whose hold cannot be persisted.
func unavailable(err error) *apierror.Error {
	return &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "store_unavailable", RetryAfter: time.Second, Cause: err,
		Message: "The gateway cannot record what the request may cost.",
	}
}

// ErrStoreDown is the cause of refusing a request whose limits are shared while the store is down.
var ErrStoreDown = errors.New("the store of shared limits is down")

// storeDown returns the error for a request that is not admitted without the store.
func (a *Account) storeDown() *apierror.Error {
	return &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "store_unavailable", RetryAfter: time.Second,
		Cause:   fmt.Errorf("%s: %w", a.scope, ErrStoreDown),
		Message: fmt.Sprintf("The limits of the %s cannot be checked.", a.scope.name()),
	}
}
