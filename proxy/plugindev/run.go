package plugindev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Result is the outcome of running a vector. If the plugin itself failed, Response begins with a line that says in
// which call and how, followed by the response that the client would receive.
type Result struct {
	Request  string // method, path, headers and body of the upstream request of each attempt; empty if the plugin responded itself
	Warnings string // one per line
	Response string // a line with the HTTP status, and the body that the client receives
	Cost     Cost
	Calls    []Call // in the order in which they were made
	Err      error  // the error that ended the last attempt; nil if it succeeded
	Broken   bool   // the plugin itself failed

	// Mistakes are what the contract accepts of the plugin, but its author most likely did not mean, in sentences that
	// begin with the call.
	Mistakes []string

	Failed string // status and code of the error that the client receives, "" if there is none

	// Rejected is the code of the error with which the gateway rejects the request, without calling the plugin; empty
	// if it does not.
	Rejected string
}

// Call is one call of the plugin.
type Call struct {
	Name  string // the export
	Fuel  int64  // 0 for a native plugin
	Time  time.Duration
	Share float64 // share of its budget
}

// Cost is the fuel that a vector's calls used. It is 0 for a native plugin.
type Cost struct {
	Request int64 // fuel of provider_request
	Reading int64 // fuel of all calls that read the response
	Reads   int   // number of calls that read the response

	Share float64 // largest share of its budget that a call used
}

// addCall adds a call that used some fuel, and returns its share of the budget that a call has for an input of this
// size.
func (c *Cost) addCall(used, base int64, input int) (share float64) {
	share = float64(used) / float64(base+plugin.DefaultFuelPerByte*int64(input))
	c.Share = max(c.Share, share)
	return share
}

// Fixed values, so that every run gives the same bytes.
const (
	testID      = "chatcmpl-test"
	testCreated = 1700000000
	testRandom  = 0x9f86d081884c7d65

	// Size of the pieces in which a body arrives. As a prime number, it does not coincide with boundaries within the
	// body.
	pieceBytes = 61
)

// runMode is how a vector is run.
type runMode struct {
	stream        bool   // the client wants a stream
	form          string // the client's API; used only with clientRequest
	clientRequest []byte // the client's request in form; nil for the vector's own request

	pieces     int // size in bytes of the pieces in which a body arrives; 0 means pieceBytes
	cut        int // a body arrives in two pieces, the first of this many bytes; 0 does not split it so
	leaveAfter int // the client disconnects after this many calls that read the response; 0 for never
}

// run is a client's request with all its attempts.
type run struct {
	runMode
	v        *Vector
	b        *plugin.Binding
	attempt  plugin.Attempt
	request  clientapi.Request
	api      *clientapi.API // API of the client
	renderer clientapi.Renderer
	writer   *response.Writer
	reader   clientapi.Reader // nil if the plugin reads the response
	batch    response.Batch
	answer   Answer   // response to the current request
	answers  []Answer // responses to the requests after it
	cancel   string   // path of the request with which the plugin cancels the attempt
	result   Result

	requests, warnings, attempts strings.Builder // texts of all attempts
}

// errClientLeft ends a run whose client has disconnected.
var errClientLeft = errors.New("the client has left")

// Run runs the vector for a client that wants a stream with usage, or a non-streaming response, regardless of the
// request's own stream member. The summary that the plugin receives is derived from the request's body.
func (v *Vector) Run(b *Binding, stream bool) Result { return v.run(b, runMode{stream: stream}) }

// RunFor is like Run for a client that uses another API than the vector does: form is that API, and asked is the
// client's request, which must be equivalent to the vector's.
func (v *Vector) RunFor(b *Binding, form string, asked []byte, stream bool) Result {
	return v.run(b, runMode{form: form, clientRequest: asked, stream: stream})
}

func (v *Vector) run(b *Binding, h runMode) Result {
	api := findAPI(v.Form)
	if api == nil {
		return Result{Response: "vector.json has an unknown form " + v.Form}
	}
	h.stream = h.stream && streams(v.Form)
	request := newRequest(api, h.stream)
	if err := request.Parse(bytes.Clone(v.Request), clientapi.Limits{}); err != nil {
		return Result{Response: "request.json is rejected: " + err.Error(), Rejected: cmp.Or(err.Code, string(err.Kind))}
	}
	client, responded := api, request
	if h.clientRequest != nil {
		client = findAPI(h.form)
		responded = newRequest(client, h.stream)
		if err := responded.Parse(bytes.Clone(h.clientRequest), clientapi.Limits{}); err != nil {
			return Result{Response: "the client's request is rejected: " + err.Error()}
		}
	}
	renderer := client.NewRenderer()
	r := run{runMode: h, v: v, b: b.binding, request: request, api: client, renderer: renderer, writer: response.NewWriter(renderer)}
	r.answers = v.answers()
	for n := 1; ; n++ {
		r.answer, r.answers = r.answers[0], r.answers[1:]
		r.startAttempt(n)
		renderer.Respond(responded)
		r.result.Err = r.callPlugin()
		r.noteMistakes()
		failed := r.failure(r.result.Err)
		if failed == nil || len(r.answers) == 0 || !failed.TryNext || r.stream && r.writer.Started() {
			if len(r.answers) > 0 {
				fmt.Fprintf(&r.attempts, "attempt %d is the last: the other answers are not asked for\n", n)
			}
			break
		}
		fmt.Fprintf(&r.attempts, "attempt %d: %s\n", n, describeFailure(failed))
	}
	r.result.Request, r.result.Warnings = r.requests.String(), r.warnings.String()
	r.finish(r.result.Err)
	return r.result
}

// noteMistakes collects the plugin's mistakes of an attempt.
func (r *run) noteMistakes() {
	r.result.Mistakes = appendNew(r.result.Mistakes, r.attempt.Mistakes...)
	if r.reader == nil && hasReplacement(r.writer.Output()) && !hasReplacement(r.v.Request) && !hasReplacement(r.answer.Body) {
		r.result.Mistakes = appendNew(r.result.Mistakes, "the response has U+FFFD in place of bytes of the plugin that are not UTF-8")
	}
	if r.reader == nil && r.writer.Dropped() > 0 {
		r.result.Mistakes = appendNew(r.result.Mistakes, "output after a choice's finish, or after the end of a tool call, is dropped: call finish last for each choice")
	}
	if r.reader == nil && r.writer.PartialCall() {
		r.result.Mistakes = appendNew(r.result.Mistakes, "the arguments of a tool call are not a whole JSON value, which clients cannot parse")
	}
	if r.reader == nil && r.writer.Unfinished() {
		r.result.Mistakes = appendNew(r.result.Mistakes, "the response has no finish reason, so clients receive \"stop\": call finish for each choice")
	}
}

// hasReplacement reports whether a text contains U+FFFD, perhaps escaped.
func hasReplacement(p []byte) bool {
	return bytes.Contains(p, []byte("\uFFFD")) || bytes.Contains(p, []byte(`\ufffd`))
}

// failure returns the error that the client gets for an attempt that ended with err, or nil if it succeeded.
func (r *run) failure(err error) *apierror.Error {
	if err == nil {
		return r.writer.Failed()
	}
	if e, ok := errors.AsType[*apierror.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*plugin.CallError](err); ok {
		return e.ClientError()
	}
	return apierror.Fail(abi.FailBadAnswer, "", "", "")
}

// describeFailure formats a failure on one line.
func describeFailure(e *apierror.Error) string {
	s := fmt.Sprintf("%d %s", e.Status, cmp.Or(e.Code, string(e.Kind)))
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	return s
}

// startAttempt prepares attempt n.
func (r *run) startAttempt(n int) {
	v, a, facts := r.v, &r.attempt, r.request.Describe()
	r.reader, r.cancel = nil, ""
	a.Reset()
	a.Writer, a.Tenant = r.writer, "plugindev"
	a.Request.Doc, a.Request.Body = r.request.Document()
	a.Summary = plugin.Summary{
		RequestID: "req_test", Time: time.Unix(testCreated, 0), Attempt: n, Random: testRandom, Target: v.Target,
		MaxTokens: v.Limits.MaxTokens, DefaultMaxTokens: v.Limits.DefaultMaxTokens, Options: v.Options,
		Form: v.Form, ClientForm: cmp.Or(v.ClientForm, v.Form), Betas: v.Betas,
	}
	a.Summary.Describe(facts, len(a.Request.Body))
	r.writer.Reset(response.Options{
		Stream: r.stream, IncludeUsage: true, FunctionCalls: facts.FunctionCalls, ID: testID, Model: v.Target, Created: testCreated, Choices: facts.N,
		PromptEstimate: int64(facts.TextBytes) / 4, Aliases: a.Alias,
	})
}

// callPlugin makes the plugin calls of an attempt.
func (r *run) callPlugin() error {
	a, began := &r.attempt, time.Now()
	err := r.b.Request(context.Background(), a)
	took := time.Since(began)
	r.result.Cost.Request += a.Fuel
	share := r.result.Cost.addCall(a.Fuel, plugin.DefaultCallFuel, len(a.Request.Body))
	r.result.Calls = append(r.result.Calls, Call{abi.ExportRequest, a.Fuel, took, share})
	if err != nil {
		return err
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(&r.warnings, "%s %s\n", [...]string{"dropped", "clamped", "changed"}[w.Kind], w.Member)
	}
	if a.Answered {
		return nil
	}
	fmt.Fprintf(&r.requests, "POST %s\n", a.Out.Path)
	for _, h := range a.Out.Headers {
		fmt.Fprintf(&r.requests, "%s: %s\n", h.Name, h.Value)
	}
	fmt.Fprintf(&r.requests, "\n%s\n", a.Out.Body)
	if r.answer.Body == nil {
		return nil
	}
	api := dialectAPI(a.Dialect, r.v.Form)
	switch {
	case api == nil:
	case api.NewReader == nil:
		return nil
	default:
		r.openReader(api)
	}
	before := a.Fuel
	defer func() { r.result.Cost.Reading += a.Fuel - before }()
	for {
		a.ResponseHeader = lookup(r.answer.Headers)
		if err := r.readAnswer(api); err != nil || a.Next.Path == "" {
			return err
		}
		if more, err := r.follow(); !more {
			return err
		}
	}
}

// readAnswer reads the response to a request of the attempt. api is the API in which the gateway itself reads it; nil if
// the plugin reads it.
func (r *run) readAnswer(api *clientapi.API) (err error) {
	a, to := &r.attempt, &r.answer
	if to.Status < 300 {
		if d := newDecoder(to.ContentType, a.Framing); d != nil {
			return r.readEvents(d)
		}
		return r.readDocument()
	}
	if api != nil {
		return api.Failure(to.Status, to.Body)
	}
	before, began := a.Fuel, time.Now()
	err = r.b.Response(context.Background(), a, to.Status, to.Body)
	r.addRead(abi.ExportResponse, began, before, plugin.DefaultCallFuel, len(to.Body))
	if err == nil && r.writer.Failed() == nil && a.Next.Path == "" {
		err = native.Failure(to.Status, nil) // the plugin found no error in the body, so the status decides
	}
	return err
}

// follow makes the further request that the plugin has asked for, whose response is the next answer. It returns false if
// there is none, or if the client leaves.
func (r *run) follow() (more bool, err error) {
	a := &r.attempt
	next := a.Next
	a.Next = plugin.FollowUp{}
	if c := a.Cancel; c.Path != r.cancel {
		r.cancel = c.Path
		fmt.Fprintf(&r.requests, "\nif the client leaves:\n%s %s\n%s", c.Method, c.Path, c.Body)
	}
	fmt.Fprintf(&r.requests, "\nafter %v:\n%s %s\n%s", next.Pause, next.Method, next.Path, next.Body)
	switch {
	case r.leaveAfter > 0 && r.result.Cost.Reads >= r.leaveAfter:
		return false, errClientLeft
	case len(r.answers) == 0:
		r.result.Mistakes = appendNew(r.result.Mistakes, fmt.Sprintf("next_request asks for %s %s, to which the vector has no answer: add it, with the answers in files answer.1.json, answer.2.json and so on", next.Method, next.Path))
		return false, response.Truncated()
	}
	r.answer, r.answers = r.answers[0], r.answers[1:]
	return true, nil
}

// readDocument reads a response that is one document.
func (r *run) readDocument() error {
	if r.answer.Truncated && r.answer.Status < 300 {
		return response.Truncated()
	}
	if r.reader != nil {
		r.batch.Reset()
		if err := r.reader.ReadResponse(r.answer.Body, &r.batch); err != nil {
			return err
		}
		if err := r.writer.Apply(&r.batch); err != nil {
			return err
		}
	} else {
		before, began := r.attempt.Fuel, time.Now()
		err := r.b.Response(context.Background(), &r.attempt, r.answer.Status, r.answer.Body)
		r.addRead(abi.ExportResponse, began, before, plugin.DefaultCallFuel, len(r.answer.Body))
		if err != nil {
			return err
		}
		if r.writer.Failed() == nil && !r.writer.Complete() && !r.writer.DoneAtEnd() && r.attempt.Next.Path == "" {
			r.result.Mistakes = appendNew(r.result.Mistakes, abi.ExportResponse+": neither done nor fail was called, so clients receive an error: call done after a complete response")
		}
	}
	return r.endAnswer()
}

// endAnswer ends a response that the plugin has read to its end. The client's response ends with it, unless the plugin has
// asked for a further request.
func (r *run) endAnswer() error {
	if r.attempt.Next.Path != "" {
		return nil
	}
	return r.writer.End()
}

// readEvents reads a response event by event, until it is complete or its body ends.
func (r *run) readEvents(d framing.Decoder) error {
	for body, size := r.answer.Body, cmp.Or(r.cut, r.pieces, pieceBytes); len(body) > 0; {
		n := min(size, len(body))
		if r.cut > 0 {
			size = len(body)
		}
		d.Feed(body[:n])
		body = body[n:]
		for {
			ev, ok, err := d.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := r.readEvent(ev); err != nil || r.writer.Complete() {
				return err
			}
		}
	}
	if r.answer.Truncated {
		return response.Truncated()
	}
	if ev, ok, err := d.End(); err != nil {
		return err
	} else if ok {
		if err := r.readEvent(ev); err != nil || r.writer.Complete() {
			return err
		}
	}
	if r.reader == nil {
		before, began := r.attempt.Fuel, time.Now()
		err := r.b.End(context.Background(), &r.attempt)
		if used := r.attempt.Fuel - before; used > 0 {
			r.result.Calls = append(r.result.Calls, Call{abi.ExportEnd, used, time.Since(began), float64(used) / plugin.DefaultEventFuel})
		}
		if err != nil {
			return err
		}
	}
	return r.endAnswer()
}

func (r *run) readEvent(ev framing.Event) error {
	if r.reader == nil {
		before, began := r.attempt.Fuel, time.Now()
		err := r.b.Event(context.Background(), &r.attempt, ev.Kind, ev.Name, ev.Data)
		r.addRead(abi.ExportEvent, began, before, plugin.DefaultEventFuel, len(ev.Name)+len(ev.Data))
		if err == nil && r.result.Cost.Reads == r.leaveAfter {
			return errClientLeft
		}
		return err
	}
	r.batch.Reset()
	if err := r.reader.ReadEvent(ev.Name, ev.Data, &r.batch); err != nil {
		return err
	}
	return r.writer.Apply(&r.batch)
}

// addRead adds a call that read the response. before is the fuel that the attempt had used when the call began.
func (r *run) addRead(call string, began time.Time, before, base int64, input int) {
	used, took := r.attempt.Fuel-before, time.Since(began)
	r.result.Cost.Reads++
	share := r.result.Cost.addCall(used, base, input)
	r.result.Calls = append(r.result.Calls, Call{call, used, took, share})
}

// finish renders what the client receives.
func (r *run) finish(err error) {
	m, stream := r.writer, r.stream
	out := &r.result.Response
	*out = r.attempts.String()
	if err == errClientLeft {
		*out += fmt.Sprintf("the client has left\n%s", m.Output())
		return
	}
	if err != nil {
		if broken, ok := errors.AsType[*plugin.CallError](err); ok {
			*out += broken.Call + ": " + broken.Kind.String() + "\n"
			r.result.Broken = true
		} else if _, ok := errors.AsType[*apierror.Error](err); !ok {
			*out += err.Error() + "\n"
		}
		m.Fail(r.failure(err))
	}
	failed := m.Failed()
	if failed != nil {
		r.result.Failed = describeFailure(failed)
	}
	switch {
	case failed != nil && !(stream && m.Started()):
		*out += fmt.Sprintf("%d\n%s\n", failed.Status, r.api.AppendError(nil, failed, "req_test"))
		if failed.RetryAfter > 0 {
			*out += fmt.Sprintf("retry after %v\n", failed.RetryAfter)
		}
	case stream && m.Started():
		*out += fmt.Sprintf("200\n%s", m.Output())
	case m.Complete():
		*out += fmt.Sprintf("200\n%s\n", m.AppendResponse(nil))
	}
}
