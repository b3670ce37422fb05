package plugindev

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// Vector is a client's request and an upstream's response to it. Fields with a JSON name come from vector.json.
type Vector struct {
	Name     string `json:"-"` // path of the folder, relative to the folder of all vectors
	Request  []byte `json:"-"` // the client's body
	Response []byte `json:"-"` // the upstream's body; nil if there is none
	Dir      string `json:"-"` // the folder; "" if the vector was not read from one

	// Form is the API of the request, such as "messages"; empty means chat completions. A plugin gets requests of
	// another API only if it has declared the form. ClientForm is the API that the client uses if it is another one.
	Form       string   `json:"form"`
	ClientForm string   `json:"client_form"`
	Betas      []string `json:"betas"` // betas that a Messages client has requested

	Target      string            `json:"target"`   // the upstream's name of the model; empty means "target-model"
	Settings    json.RawMessage   `json:"settings"` // settings of the provider, replacing the suite's
	Options     json.RawMessage   `json:"options"`  // options of the target
	Limits      Limits            `json:"limits"`
	Status      int               `json:"status"`       // status of the response; 0 means 200
	ContentType string            `json:"content_type"` // content type of the response; empty derives it from the file's extension
	Headers     map[string]string `json:"headers"`      // headers of the response, with lower-case names
	Truncated   bool              `json:"truncated"`    // the response is cut off at the end of the file

	// Rejected is the code of the error with which the gateway rejects the request, without calling the plugin; empty if
	// it does not. Without it, such a vector would test nothing and pass.
	Rejected string `json:"rejected"`

	// Answers are the responses to several requests, if Response is nil. The next request is the one that the plugin asks for
	// with next_request or, if an attempt fails in a way for which the gateway would try another target, the next attempt.
	// Their bodies are the files answer.1.json, answer.2.sse and so on.
	Answers []Answer `json:"answers"`
}

// Answer is a response of an upstream. Its fields are those of Vector.
type Answer struct {
	Body        []byte            `json:"-"` // nil if there is none
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Truncated   bool              `json:"truncated"`
}

// Limits are the limits of a model.
type Limits struct {
	MaxTokens        int64 `json:"max_tokens"`
	DefaultMaxTokens int64 `json:"default_max_tokens"`
}

// answers returns the responses to the attempts, at least one.
func (v *Vector) answers() []Answer {
	if len(v.Answers) > 0 {
		return v.Answers
	}
	return []Answer{{v.Response, v.Status, v.ContentType, v.Headers, v.Truncated}}
}

func loadVector(base, dir string) (*Vector, error) {
	name, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, err
	}
	v := &Vector{Name: filepath.ToSlash(name), Dir: dir}
	if v.Request, err = os.ReadFile(filepath.Join(dir, "request.json")); err != nil {
		return nil, err
	}
	v.Request = bytes.TrimSpace(v.Request)
	more, err := readOptional(dir, "vector.json")
	if err != nil {
		return nil, err
	}
	if more != nil {
		if err := decodeStrict(more, v); err != nil {
			return nil, fmt.Errorf("vector.json: %w", err)
		}
	}
	a := Answer{Status: v.Status, ContentType: v.ContentType}
	if err := a.load(dir, ""); err != nil {
		return nil, err
	}
	v.Response, v.Status, v.ContentType = a.Body, a.Status, a.ContentType
	if err := v.loadAnswers(dir); err != nil {
		return nil, err
	}
	if v.Target == "" {
		v.Target = "target-model"
	}
	return v, nil
}

// loadAnswers reads the responses of several attempts.
func (v *Vector) loadAnswers(dir string) error {
	for n := 1; ; n++ {
		var a Answer
		if n <= len(v.Answers) {
			a = v.Answers[n-1]
		}
		if err := a.load(dir, fmt.Sprintf(".%d", n)); err != nil {
			return err
		}
		switch {
		case n <= len(v.Answers) && a.Body == nil:
			return fmt.Errorf("vector.json has answer %d, and there is no file answer.%d", n, n)
		case a.Body == nil:
			return nil
		case v.Response != nil:
			return errors.New("one answer, and numbered ones")
		case n <= len(v.Answers):
			v.Answers[n-1] = a
		default:
			v.Answers = append(v.Answers, a)
		}
	}
}

// load reads the file of a response. number is the part of its name for one of several responses, such as ".2".
func (a *Answer) load(dir, number string) error {
	for _, form := range responseFiles {
		body, err := readOptional(dir, "answer"+number+form.extension)
		if err != nil {
			return err
		}
		if body == nil {
			continue
		}
		if a.Body != nil {
			return errors.New("two answers")
		}
		a.Body = body
		a.ContentType = cmp.Or(a.ContentType, form.contentType)
	}
	a.Status = cmp.Or(a.Status, 200)
	return nil
}

// decodeStrict decodes a JSON document. An unknown member is an error.
func decodeStrict(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// readOptional reads a file that may be missing. If so, it returns nil.
func readOptional(dir, name string) ([]byte, error) {
	p, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && p == nil {
		p = []byte{}
	}
	return p, err
}

// Outcome is the outcome of a vector, for a client that wants a non-streaming response and for one that wants a stream.
type Outcome struct {
	Whole, Stream Result
	text          string
	rejected      string // Vector.Rejected
}

// Outcome runs the vector for both clients.
func (v *Vector) Outcome(b *Binding) Outcome {
	o := Outcome{Whole: v.Run(b, false), Stream: v.Run(b, true), rejected: v.Rejected}
	var text strings.Builder
	section := func(name, s string) {
		if s != "" {
			fmt.Fprintf(&text, "-- %s --\n%s\n", name, strings.TrimRight(s, "\n"))
		}
	}
	section("request", o.Whole.Request)
	section("warnings", o.Whole.Warnings)
	section("whole", o.Whole.Response)
	if streams(v.Form) {
		section("stream", o.Stream.Response)
	}
	o.text = text.String()
	return o
}

// Text returns the outcome in the format of want.txt.
func (o Outcome) Text() string { return o.text }

// Problems returns what is wrong with an outcome regardless of want.txt.
func (o Outcome) Problems() (problems []string) {
	for _, r := range []Result{o.Whole, o.Stream} {
		if r.Rejected != o.rejected {
			problems = append(problems, rejectedProblem(r, o.rejected))
			break
		}
	}
	if w, s := o.Whole, o.Stream; w.Request != s.Request || w.Warnings != s.Warnings {
		problems = append(problems, "two runs of the same request build different upstream requests\n"+Diff(w.Request+w.Warnings, s.Request+s.Warnings))
	}
	if share := o.Share(); share > MaxShare {
		problems = append(problems, budgetProblem(share))
	}
	return problems
}

// rejectedProblem describes a result whose rejection by the gateway is not the one that vector.json declares.
func rejectedProblem(r Result, declared string) string {
	if r.Rejected == "" {
		return fmt.Sprintf("the gateway accepts the request: remove \"rejected\": %q from vector.json", declared)
	}
	return fmt.Sprintf("the plugin is not called: %s\nCorrect request.json, or declare \"rejected\": %q in vector.json", r.Response, r.Rejected)
}

func budgetProblem(share float64) string {
	return fmt.Sprintf("a call used %.0f%% of its budget, more than %.0f%%", 100*share, 100*MaxShare)
}

// failure returns the error of the plugin itself, or nil if it did not fail.
func (o Outcome) failure() error {
	for _, r := range []Result{o.Whole, o.Stream} {
		if r.Broken {
			return r.Err
		}
	}
	return nil
}

// Share returns the largest share of its budget that a call used.
func (o Outcome) Share() float64 { return max(o.Whole.Cost.Share, o.Stream.Cost.Share) }

// MaxShare is the share of its budget that a call may use, even for a request that is designed to be expensive.
const MaxShare = 2.0 / 3

// WantFile is the file in a vector's folder with its expected outcome.
const WantFile = "want.txt"

// Stream reports whether the request asks for a stream.
func (v *Vector) Stream() bool {
	api := findAPI(v.Form)
	if api == nil {
		return false
	}
	r := newRequest(api, false)
	return r.Parse(bytes.Clone(v.Request), clientapi.Limits{}) == nil && r.Describe().Stream
}
