package spend

import (
	"errors"
	"fmt"
	"slices"
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

// LimitError names the limit or budget that a request exceeds, for the log.
type LimitError struct {
	Scope    Scope
	Limit    LimitKind
	Value    int64         // the limit; in nano-dollars for a budget
	Per      config.Period // period of the budget
	Until    time.Time     // end of the budget's window; zero if it has none
	Unpriced bool          // the request's model has no price, which the budget requires
	Held     bool          // the budget would suffice without the holds of requests in flight and, if it is shared, of other gateways

	Need, Left cost.Nano // what the request may cost, and what is left of the budget apart from holds
	Err        error     // why it is unknown what is left; nil if the limit is exceeded
}

func (e *LimitError) Error() string {
	what := fmt.Sprintf("limits.%s = %d of %s", e.Limit, e.Value, e.Scope)
	if e.Limit == LimitBudget {
		what = fmt.Sprintf("budget per %s of %s", e.Per, e.Scope)
	}
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%s cannot be checked: %v", what, e.Err)
	case e.Limit != LimitBudget:
		return what + " is reached"
	case e.Unpriced:
		return fmt.Sprintf("model without a price under a budget of %s", e.Scope)
	case e.Held:
		return what + " is held by requests in flight"
	case e.Left > 0:
		return fmt.Sprintf("%s has %s USD left, and the request may need %s USD", what, e.Left, e.Need)
	}
	return what + " is spent"
}

// Unwrap returns why it is unknown what is left.
func (e *LimitError) Unwrap() error { return e.Err }

func budgetError(b *config.Budget) LimitError {
	return LimitError{Limit: LimitBudget, Value: int64(b.Limit), Per: b.Per}
}

// budgetName returns the name of a budget in messages to clients.
func (a *Account) budgetName(per config.Period) string {
	if per == config.PerTotal {
		return "total budget of the " + a.who()
	}
	return fmt.Sprintf("budget of the %s per %s", a.who(), per)
}

// limit returns the value of a limit other than a budget.
func (a *Account) limit(l LimitKind) int64 {
	return [...]int64{a.limits.RequestsPerMinute, a.limits.TokensPerMinute, a.limits.Concurrent}[l]
}

var limitTexts = [...]string{LimitRequests: "requests per minute", LimitTokens: "tokens per minute", LimitConcurrent: "concurrent requests"}

func (a *Account) rateLimited(l LimitKind, wait time.Duration, remaining, needed int64) *apierror.Error {
	cause := &LimitError{Scope: a.shown(), Limit: l, Value: a.limit(l)}
	e := apierror.Invalid("rate_limit_exceeded", "", "")
	e.Status, e.Kind, e.RetryAfter, e.Cause = 429, apierror.KindRateLimit, wait, cause
	what := limitTexts[l]
	switch own := a.scope.Kind == Key || a.scope.Kind == User; {
	case !own && l == LimitConcurrent:
		e.Message = fmt.Sprintf("The %s has reached its limit of %s.", a.who(), what)
	case !own:
		e.Message = fmt.Sprintf("The %s has reached its limit of %s. Retry in %s.", a.who(), what, wait)
	case l == LimitConcurrent:
		e.Message = fmt.Sprintf("The %s is limited to %d %s.", a.self(), cause.Value, what)
	case l == LimitRequests:
		e.Message = fmt.Sprintf("The %s is limited to %d %s. Retry in %s.", a.self(), cause.Value, what, wait)
	default:
		e.Message = fmt.Sprintf("The %s is limited to %d %s: %d remain, and the request may need %d. Retry in %s.", a.self(), cause.Value, what, remaining, needed, wait)
	}
	return e
}

func (a *Account) promptTooLong(prompt int64) *apierror.Error {
	e := a.rateLimited(LimitTokens, 0, 0, 0)
	e.NoRetry = true
	e.Message = fmt.Sprintf("The %s is limited to fewer tokens per minute than the prompt has, which are about %d.", a.who(), prompt)
	if a.scope.Kind == Key || a.scope.Kind == User {
		e.Message = fmt.Sprintf("The %s is limited to %d tokens per minute, and the prompt has about %d.", a.self(), a.limits.TokensPerMinute, prompt)
	}
	return e
}

// exceeds returns the error for a request that needs more than is left of a budget. lead is the beginning of the message
// that says what it needs. If the request would fit without the holds of other requests, the client may retry.
func (a *Account) exceeds(b *config.Budget, w *window, need cost.Nano, lead string) *apierror.Error {
	cause := budgetError(b)
	cause.Scope, cause.Until, cause.Need, cause.Left = a.shown(), w.end, need, max(b.Limit+w.credit-w.spent-w.others, 0)
	cause.Held = need <= cause.Left
	e, name := apierror.Invalid("insufficient_quota", "", ""), a.budgetName(b.Per)
	e.Status, e.Kind, e.NoRetry, e.Cause = 429, apierror.KindInsufficientQuota, true, &cause
	switch {
	case cause.Held:
		e.Code, e.Kind, e.RetryAfter, e.NoRetry = "rate_limit_exceeded", apierror.KindRateLimit, time.Second, false
		e.Message = fmt.Sprintf("What is left of the %s is held by requests in flight.", name)
		if a.sharesBudget(b) {
			e.Message = fmt.Sprintf("What is left of the %s is held by requests in flight, or by other gateways.", name)
		}
		return e
	case cause.Left > 0:
		e.Code = "request_exceeds_budget"
		e.Message = fmt.Sprintf("%s %s USD, and %s USD is left of the %s.", lead, need, cause.Left, name)
	default:
		e.Message = fmt.Sprintf("The %s is spent.", name)
	}
	if b.Per != config.PerTotal {
		e.Message += fmt.Sprintf(" The next %s begins at %s.", b.Per, w.end.UTC().Format(time.RFC3339))
	}
	return e
}

// ErrStoreDown is the cause of refusing a request whose limits are shared while the store is down.
var ErrStoreDown = errors.New("the store of shared limits is down")

// storeDown returns the error for a request that is not admitted without the store. cause is the limit or budget that it
// cannot be checked against.
func (a *Account) storeDown(cause LimitError) *apierror.Error {
	cause.Err = ErrStoreDown
	if err := a.usage.shared.damaged; err != nil {
		cause.Err = err
	}
	name := a.budgetName(cause.Per)
	if cause.Limit != LimitBudget {
		name = fmt.Sprintf("limit of %s of the %s", limitTexts[cause.Limit], a.who())
	}
	return a.unavailable(cause, fmt.Sprintf("The %s cannot be checked.", name))
}

// unrecorded returns the error for a request whose hold cannot be persisted.
func (s *Scopes) unrecorded(err error) *apierror.Error {
	i := slices.IndexFunc(s[:], func(a *Account) bool { return a != nil && len(a.budgets) > 0 })
	a := s[i]
	cause := budgetError(&a.budgets[0])
	cause.Err = err
	return a.unavailable(cause, fmt.Sprintf("What the request may cost cannot be recorded for the %s.", a.budgetName(cause.Per)))
}

func (a *Account) unavailable(cause LimitError, message string) *apierror.Error {
	cause.Scope = a.shown()
	return &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "store_unavailable", RetryAfter: time.Second, Cause: &cause, Message: message,
	}
}
