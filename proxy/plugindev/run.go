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
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Result is the outcome of a vector. Where the plugin itself failed, Response begins with a line that says in which call
// and how, and goes on with what the client would receive.
type Result struct {
	Request  string // method, path, headers and body of the upstream's request; empty if the plugin answered itself
	Warnings string // a line each
	Response string // a line with the HTTP status, and the body that the client receives
	Cost     Cost
	Err      error // what ended the attempt, nil if it succeeded
}

// Cost is the fuel that a vector's calls took; 0 for a native plugin.
type Cost struct {
	Request int64 // of provider_request
	Reading int64 // of all calls that read the response
	Reads   int   // how many they were

	Share float64 // the greatest part of its budget that a call took
}

// addCall adds a call that took some fuel of the budget that it has for an input.
func (c *Cost) addCall(used, base int64, input int) {
	c.Share = max(c.Share, float64(used)/float64(base+plugin.DefaultFuelPerByte*int64(input)))
}

// Fixed values, so that every run gives the same bytes.
const (
	testID      = "chatcmpl-test"
	testCreated = 1700000000
	testRandom  = 0x9f86d081884c7d65

	// A body arrives in pieces of this size, which matches no boundary within it.
	pieceBytes = 61
)

// run is one attempt at a vector.
type run struct {
	v        *Vector
	b        *plugin.Binding
	attempt  plugin.Attempt
	api      *clientapi.API // of the request and of the client
	renderer clientapi.Renderer
	writer   *response.Writer
	reader   clientapi.Reader // nil if the plugin reads the response
	batch    response.Batch
	result   Result
}

// Run runs the vector for a client that wants a stream with its usage, or a non-streaming response, whatever the request
// asks for. What the plugin learns of the request follows from its body.
func (v *Vector) Run(b *Binding, stream bool) Result { return v.RunFor(b, "", nil, stream) }

// RunFor is Run for a client of another API than that of the vector's request: form, whose request asks for the same.
func (v *Vector) RunFor(b *Binding, form string, asked []byte, stream bool) Result {
	api := findAPI(v.Form)
	if api == nil {
		return Result{Response: "vector.json has an unknown form " + v.Form}
	}
	stream = stream && streams(v.Form)
	request := api.NewRequest()
	if err := request.Parse(bytes.Clone(v.Request), clientapi.Limits{}); err != nil {
		return Result{Response: "request.json is refused: " + err.Error()}
	}
	client, responded := api, request
	if asked != nil {
		client = clientAPI(form)
		responded = client.NewRequest()
		if err := responded.Parse(bytes.Clone(asked), clientapi.Limits{}); err != nil {
			return Result{Response: "the client's request is refused: " + err.Error()}
		}
	}
	renderer := client.NewRenderer()
	r := run{v: v, b: b.binding, api: client, renderer: renderer, writer: response.NewWriter(renderer)}
	a, facts := &r.attempt, request.Describe()
	a.Writer, a.Tenant = r.writer, "plugindev"
	a.Request.Doc, a.Request.Body = request.Document()
	a.ResponseHeader = lookup(v.Headers)
	a.Summary = plugin.Summary{
		RequestID: "req_test", Time: time.Unix(testCreated, 0), Attempt: 1, Random: testRandom, Target: v.Target,
		MaxTokens: v.Limits.MaxTokens, DefaultMaxTokens: v.Limits.DefaultMaxTokens, Options: v.Options,
		Form: v.Form, ClientForm: cmp.Or(v.ClientForm, v.Form), Betas: v.Betas,
	}
	a.Summary.Describe(facts, len(a.Request.Body))
	r.writer.Reset(response.Options{
		Stream: stream, IncludeUsage: true, FunctionCalls: facts.FunctionCalls, ID: testID, Model: v.Target, Created: testCreated, Choices: facts.N,
		PromptEstimate: int64(facts.TextBytes) / 4, Aliases: a.Alias,
	})
	renderer.Respond(responded)
	r.result.Err = r.calls()
	r.finish(stream, r.result.Err)
	return r.result
}

// calls makes the plugin calls of an attempt.
func (r *run) calls() error {
	a := &r.attempt
	err := r.b.Request(context.Background(), a)
	r.result.Cost.Request = a.Fuel
	r.result.Cost.addCall(a.Fuel, plugin.DefaultCallFuel, len(a.Request.Body))
	if err != nil {
		return err
	}
	var warnings strings.Builder
	for _, w := range a.Warnings {
		fmt.Fprintf(&warnings, "%s %s\n", [...]string{"dropped", "clamped", "changed"}[w.Kind], w.Member)
	}
	r.result.Warnings = warnings.String()
	if a.Answered {
		return nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "POST %s\n", a.Out.Path)
	for _, h := range a.Out.Headers {
		fmt.Fprintf(&out, "%s: %s\n", h.Name, h.Value)
	}
	fmt.Fprintf(&out, "\n%s\n", a.Out.Body)
	r.result.Request = out.String()
	if r.v.Response == nil {
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
	switch {
	case r.v.Status >= 300 && api != nil:
		err = api.Failure(r.v.Status, r.v.Response)
	case r.v.Status >= 300:
		err = r.whole()
	default:
		if d := newDecoder(r.v.ContentType); d != nil {
			err = r.events(d)
		} else {
			err = r.whole()
		}
	}
	r.result.Cost.Reading = a.Fuel - before
	return err
}

// whole reads a response that is one document.
func (r *run) whole() error {
	if r.reader != nil {
		r.batch.Reset()
		if err := r.reader.ReadResponse(r.v.Response, &r.batch); err != nil {
			return err
		}
		if err := r.writer.Apply(&r.batch); err != nil {
			return err
		}
	} else {
		r.result.Cost.Reads++
		before := r.attempt.Fuel
		err := r.b.Response(context.Background(), &r.attempt, r.v.Status, r.v.Response)
		r.result.Cost.addCall(r.attempt.Fuel-before, plugin.DefaultCallFuel, len(r.v.Response))
		if err != nil {
			return err
		}
	}
	return r.writer.End()
}

// events reads a response event by event, until it is complete or its body ends.
func (r *run) events(d framing.Decoder) error {
	for body := r.v.Response; len(body) > 0; {
		n := min(pieceBytes, len(body))
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
			if err := r.event(ev); err != nil || r.writer.Complete() {
				return err
			}
		}
	}
	if ev, ok, err := d.End(); err != nil {
		return err
	} else if ok {
		if err := r.event(ev); err != nil || r.writer.Complete() {
			return err
		}
	}
	if r.reader == nil {
		if err := r.b.End(context.Background(), &r.attempt); err != nil {
			return err
		}
	}
	return r.writer.End()
}

func (r *run) event(ev framing.Event) error {
	if r.reader == nil {
		r.result.Cost.Reads++
		before := r.attempt.Fuel
		err := r.b.Event(context.Background(), &r.attempt, ev.Kind, ev.Name, ev.Data)
		r.result.Cost.addCall(r.attempt.Fuel-before, plugin.DefaultEventFuel, len(ev.Name)+len(ev.Data))
		return err
	}
	r.batch.Reset()
	if err := r.reader.ReadEvent(ev.Name, ev.Data, &r.batch); err != nil {
		return err
	}
	return r.writer.Apply(&r.batch)
}

// finish renders what the client receives.
func (r *run) finish(stream bool, err error) {
	m := r.writer
	out := &r.result.Response
	if err != nil {
		var (
			failure *apierror.Error
			broken  *plugin.CallError
		)
		switch {
		case errors.As(err, &broken):
			*out = broken.Call + ": " + broken.Kind.String() + "\n"
			failure = broken.ClientError()
		case !errors.As(err, &failure):
			*out = err.Error() + "\n"
			failure = apierror.Fail(abi.FailBadAnswer, "", "", "")
		}
		m.Fail(failure)
	}
	failed := m.Failed()
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
