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

// Vector is a client's request and an upstream's answer to it. The members with a name in JSON come from vector.json.
type Vector struct {
	Name     string `json:"-"` // the folder's path below that of all vectors
	Request  []byte `json:"-"` // the client's body
	Response []byte `json:"-"` // the upstream's body, nil if there is none
	Dir      string `json:"-"` // the folder, "" if it was not read from one

	// Form is the API whose request this is, as Messages clients and others write it; empty is chat completions. A plugin gets such a
	// request only if it has declared the form. ClientForm is the API that the client uses, if that is another one.
	Form       string   `json:"form"`
	ClientForm string   `json:"client_form"`
	Betas      []string `json:"betas"` // of a Messages client

	Target      string            `json:"target"`   // the upstream's name of the model; empty is "target-model"
	Settings    json.RawMessage   `json:"settings"` // of the provider, in place of those of the others
	Options     json.RawMessage   `json:"options"`  // of the target
	Limits      Limits            `json:"limits"`
	Status      int               `json:"status"`       // of the answer; 0 is 200
	ContentType string            `json:"content_type"` // of the answer; empty is what the file's name says
	Headers     map[string]string `json:"headers"`      // of the answer, with names in lower case
	Truncated   bool              `json:"truncated"`    // the answer is cut off at the end of the file

	// Answers are those of several attempts, where Response is nil: a request that fails so that another target may do better is
	// tried again. Their bodies are the files answer.1.json, answer.2.sse and so on.
	Answers []Answer `json:"answers"`
}

// Answer is a response of an upstream.
type Answer struct {
	Body        []byte            `json:"-"`            // nil if there is none
	Status      int               `json:"status"`       // 0 is 200
	ContentType string            `json:"content_type"` // empty is what the file's name says
	Headers     map[string]string `json:"headers"`      // with names in lower case
	Truncated   bool              `json:"truncated"`    // it is cut off at the end of the file
}

// Limits are those of a model.
type Limits struct {
	MaxTokens        int64 `json:"max_tokens"`
	DefaultMaxTokens int64 `json:"default_max_tokens"`
}

// answers are the responses to the attempts, one at least.
func (v *Vector) answers() []Answer {
	if len(v.Answers) > 0 {
		return v.Answers
	}
	return []Answer{{v.Response, v.Status, v.ContentType, v.Headers, v.Truncated}}
}

func load(base, dir string) (*Vector, error) {
	name, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, err
	}
	v := &Vector{Name: filepath.ToSlash(name), Dir: dir}
	if v.Request, err = os.ReadFile(filepath.Join(dir, "request.json")); err != nil {
		return nil, err
	}
	v.Request = bytes.TrimSpace(v.Request)
	more, err := optional(dir, "vector.json")
	if err != nil {
		return nil, err
	}
	if more != nil {
		if err := decodeStrict(more, v); err != nil {
			return nil, fmt.Errorf("vector.json: %w", err)
		}
	}
	one := Answer{Status: v.Status, ContentType: v.ContentType}
	if err := one.load(dir, ""); err != nil {
		return nil, err
	}
	v.Response, v.Status, v.ContentType = one.Body, one.Status, one.ContentType
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

// load reads the file of a response, whose name has a number if there are several.
func (a *Answer) load(dir, number string) error {
	for _, form := range responseFiles {
		body, err := optional(dir, "answer"+number+form.extension)
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

// decodeStrict reads a JSON document, in which a misspelt member is an error.
func decodeStrict(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// optional reads a file that may be missing; it is nil then.
func optional(dir, name string) ([]byte, error) {
	p, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && p == nil {
		p = []byte{}
	}
	return p, err
}

// Outcome is what comes of a vector, for a client that wants a non-streaming response and for one that wants a stream.
type Outcome struct {
	Whole, Stream Result
	text          string
}

// Outcome runs the vector in both ways.
func (v *Vector) Outcome(b *Binding) Outcome {
	o := Outcome{Whole: v.Run(b, false), Stream: v.Run(b, true)}
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

// Text is the outcome as want.txt holds it.
func (o Outcome) Text() string { return o.text }

// Problems are what is wrong with an outcome whatever it should have been, a line each.
func (o Outcome) Problems() (problems []string) {
	if w, s := o.Whole, o.Stream; w.Request != s.Request || w.Warnings != s.Warnings {
		problems = append(problems, "two runs of the same request give the upstream different ones\n"+Diff(w.Request+w.Warnings, s.Request+s.Warnings))
	}
	if share := o.Share(); share > MaxShare {
		problems = append(problems, budgetProblem(share))
	}
	return problems
}

func budgetProblem(share float64) string {
	return fmt.Sprintf("a call took %.0f%% of its budget, more than %.0f%%", 100*share, 100*MaxShare)
}

// Share is the greatest part of its budget that a call took.
func (o Outcome) Share() float64 { return max(o.Whole.Cost.Share, o.Stream.Cost.Share) }

// MaxShare is how much of its budget a call may take, also for a request that was made to be expensive.
const MaxShare = 2.0 / 3

// WantFile is the file of a vector's folder with its expected outcome.
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
