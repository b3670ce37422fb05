package exchange

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Waiter watches over the waits of an attempt: it ends them when the client disconnects, or when an attempt without a
// client is cancelled. It is all that an attempt knows of whom it works for.
type Waiter interface {
	upstream.Watcher
	upstream.Pacer

	// AllowResend reports whether the attempt's request, whose connection was lost, may be sent again.
	upstream.Resender

	// Due reports whether Tick should be called although the attempt does not wait.
	Due(now time.Time) bool

	// StartWait begins a wait during which Tick is not called, and returns the context for it. FinishWait ends the
	// wait, and returns an error if the attempt must end.
	StartWait() context.Context
	FinishWait() error

	// Gone reports whether the client has disconnected or the attempt has been cancelled.
	Gone() bool
}

// Incoming is what has been read of a provider's response.
type Incoming struct {
	Response    *upstream.Response
	Reader      clientapi.Reader // reads the response; nil if a plugin translates it
	Framed      bool             // the response's first bytes have arrived, and decoder matches their framing
	bodyDone    bool             // the response's body has ended cleanly
	Passthrough bool             // the response is passed on in its own form
	EventAt     time.Time        // when the last whole event of a framed response arrived
	first       []byte           // first bytes of the response's body; valid until the next read
	UpstreamID  string           // the provider's ID of the request, redacted
}

// Attempt is one try to serve an exchange from one target. It owns its workspace, the provider's response, the hold on the
// provider's account, and the recording.
//
// Its owner fills it with what it works for, then calls Prepare, SendRequest, AwaitFirst if the response is awaited on another
// goroutine, Read until Writer is complete or has failed (AwaitBytes before it, where the stack is shallow), and at last
// Usage, RecordOutcome or RecordError, EndTape and CloseUpstream.
//
// It belongs to one goroutine at a time: its request's or, while two attempts race, one of its own until the first bytes
// of its response have arrived.
type Attempt struct {
	*Workspace  // returned to the API's pool when the attempt, or the request that it serves, ends
	Trial       // at its target
	Incoming    // response of the provider
	Services    *Services
	Exchange    *Exchange
	Documents   *Documents
	Memory      *admission.Reservation // counts the memory of a response that is held
	Provider    *Provider
	Wait        Waiter
	SendCopies  func()          // called when the provider has the request; nil if there are no copies to send
	Translated  bool            // the plugin receives the request in its chat completions form
	Followed    bool            // a further request has been sent
	Dispatched  bool            // a connection to the provider has been requested
	Sent        bool            // the request was written whole to the provider
	Rejected    bool            // the response's status is an error
	Accounted   bool            // the usage has been counted
	Logged      bool            // the failure has been logged
	Released    bool            // the attempt no longer uses the request's documents
	Shadow      bool            // the request is a copy for a shadow target, without a client
	responseAPI *API            // the API in which the provider responds; nil if a plugin translates the response
	tape        *recording.Tape // nil if the attempt is not recorded
	followAt    time.Time       // when the next request is due; zero if it is not waited for
	Account     credential.Account
	Held        holds.Attempt
	Progress    *atomic.Int32 // set for an attempt in a race: NotSent, Awaiting or Receiving
}

// Trial is an attempt as its target, and the routing decision, count it.
type Trial struct {
	Target     *routing.Target
	Ticket     breaker.Ticket
	Canary     *canary.Canary // counts the outcome of this attempt; nil if the target is not a canary
	Recorded   bool           // the outcome is in the target's statistics
	Number     int            // number of the attempt within the request, from 1
	Index      int            // index of the target in the policy's list
	Entry      int            // index of the attempt in the routing decision
	StartedAt  time.Time
	FirstEvent time.Duration // time to the first event of the response; 0 if there is none
}

// ErrCommit ends the wait for the first event after a heartbeat interval: the response's head is sent, so that the
// client sees a stream, and the wait resumes.
var ErrCommit = commitError{}

type commitError struct{}

func (commitError) Error() string { return "silence before the first event" }

func (commitError) Resumable() bool { return true }

// The progress of an attempt in a race.
const (
	NotSent   int32 = iota // the request has not been written whole, or was rejected
	Awaiting               // the request was written whole
	Receiving              // the head of a response that is no error has arrived
)

// Prepare prepares the attempt for SendRequest, on the request's goroutine. It fails if the request has no form that the
// target accepts. tap, if not nil, observes the response, and chain, if not nil, has its filters.
func (a *Attempt) Prepare(tap response.Tap, chain *filter.Chain) *apierror.Error {
	x, request := a.Exchange, a.Documents.Request
	t, m, facts := &a.Translation, x.Model, request.Describe()
	t.Reset()
	t.Writer, t.Tenant, t.Shadow = a.Writer, x.Key.Name(), a.Shadow
	_, document := request.Document()
	promptMost, responseMost := estimate.Most(facts, len(document), m.MaxTokens)
	a.Writer.Reset(response.Options{
		Stream: x.Stream, IncludeUsage: facts.IncludeUsage, FunctionCalls: facts.FunctionCalls,
		ID: x.API.NewResponseID(), RequestID: x.RequestID, Model: a.Target.Model, Created: x.Created,
		Choices: facts.N, PromptEstimate: estimate.PromptTokens(facts), PromptMost: promptMost, ResponseMost: responseMost,
		Prices: a.Target.Prices, Aliases: a.Alias,
		Tap: tap,
	})
	if chain != nil && chain.OnResponse() {
		a.filtered.Filter(chain)
	}
	a.Renderer.Respond(request)
	if e := a.chooseDocument(); e != nil {
		return e
	}
	if x.remembersThinking(a.Translated) && facts.Tools > 0 && !facts.FunctionCalls && !a.Shadow {
		a.recorder.Record(a.Services.Thinking, x.Key.Name(), a.Provider.Name)
	}
	t.Summary.Describe(facts, len(t.Request.Body))
	if a.Translated {
		t.Summary.Flags |= a.Documents.ChatForm.request.Describe().Flags & clientapi.FlagToolNames
	}
	t.Summary.ClientForm, t.Summary.Betas, t.Summary.Tags = x.API.Name, x.Betas, x.Tags
	t.Summary.RequestID = x.RequestID
	t.Summary.Time = a.StartedAt
	t.Summary.Attempt = a.Number
	t.Summary.Random = x.Random
	t.Summary.Target = a.Target.Model
	t.Summary.MaxTokens, t.Summary.DefaultMaxTokens = m.MaxTokens, m.DefaultMaxTokens
	t.Summary.Options = a.Target.Options
	return nil
}

// chooseDocument chooses the document that the target's plugin receives: the client's own if the plugin accepts that
// form, else the request's chat completions form.
func (a *Attempt) chooseDocument() *apierror.Error {
	x, d, t := a.Exchange, a.Documents, &a.Translation
	native := x.API.Form == abi.FormChat || a.Provider.Binding.Forms()&x.API.Form != 0
	if e := x.References.Check(a.Provider.Name, a.Provider.SharedObjects, native); e != nil {
		return e
	}
	if native {
		t.Request.Doc, t.Request.Body = d.Request.Document()
		t.Summary.Form = x.API.Name
		return nil
	}
	a.Translated, t.Summary.Form = true, a.Services.APIs[clientapi.Chat].Name
	if d.ChatForm.request == nil && d.ChatForm.err == nil {
		d.ChatForm.err = d.buildChat(a.Services, x)
	}
	if d.ChatForm.err != nil {
		return d.ChatForm.err
	}
	t.Request.Doc, t.Request.Body = d.ChatForm.request.Document()
	return nil
}
