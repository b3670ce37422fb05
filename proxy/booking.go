package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/booking"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// usage returns what the attempt has used when it ends: the tokens that its provider has counted, or an estimate from
// what has arrived and, if the request was sent and its outcome is unknown, what that is booked at. ok is false if it
// has used nothing.
func (a *attempt) usage() (u response.Usage, used spend.Used, ok bool) {
	w := a.writer
	u = w.Accounted()
	counted := w.Started() || w.Complete() || w.Used()
	switch {
	case a.accounted:
		return u, used, false
	case a.unknown():
		held := a.held
		held.Stream = held.Stream || a.framed
		used = held.Unknown(&u, counted)
		u.Cost = used.Cost
		return u, used, true
	case !counted:
		return u, used, false
	}
	return u, spend.Used{Tokens: u.Total, Cost: u.Cost}, true
}

// unknown reports whether the attempt has an unknown outcome if it ends now: its provider has received the request, and
// has neither rejected nor completed it.
func (a *attempt) unknown() bool { return a.sent && !a.rejected && !a.writer.Conclusive() }

// countFailed counts the usage of an attempt whose response is not used, in the record and on the attempt's holds. own is
// its hold on the accounts of the key, the team and the model, nil if it shares that of the request.
func (x *completion) countFailed(a *attempt, own *spend.Hold) {
	_, used, ok := a.usage()
	now := x.server.now()
	a.accounted = true
	a.providerHold.Settle(used, now)
	own.Settle(used, now)
	if !ok {
		return
	}
	x.recordFailed(a.unknown(), used)
	if own == nil {
		x.addFailed(used)
	}
}

// recordFailed records usage of an attempt whose response is not used.
func (x *completion) recordFailed(unknown bool, used spend.Used) {
	x.record.FailedTokens += used.Tokens
	x.record.FailedCost = x.record.FailedCost.Plus(used.Cost)
	x.recordUncertain(unknown, used)
}

// addFailed adds usage of a failed attempt that shares the request's hold on the accounts of the key, the team and the
// model.
func (x *completion) addFailed(used spend.Used) {
	if x.failed == nil {
		x.failed = new(booking.Failed)
	}
	x.failed.Add(used)
}

// AllowResend books the request whose connection was lost, as a failed attempt, and reports whether the budgets permit
// to send it again. An attempt without the completion's goroutine does not send it again. It implements
// upstream.Resender.
func (a *attempt) AllowResend() bool {
	x := a.completion
	if a.progress != nil || a.shadow {
		return false
	}
	used, now := a.held.Lost(), x.server.now()
	a.providerHold.Settle(used, now)
	x.recordFailed(true, used)
	x.addFailed(used)
	allowed := x.failed.Hold(x.scopes(), x.journalID(), now)
	if allowed {
		held, hold, e := x.holdTarget(a.target, now)
		if allowed = e == nil; allowed {
			a.held, a.providerHold = held, hold
		}
	}
	a.accounted = !allowed
	return allowed
}

// recordUncertain records the part of an attempt's usage that is booked because its outcome is unknown.
func (x *completion) recordUncertain(unknown bool, used spend.Used) {
	x.record.Uncertain = x.record.Uncertain || unknown
	x.record.UncertainCost = x.record.UncertainCost.Plus(used.Uncertain)
}
