package plugindev

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

	Target   string          `json:"target"`   // the upstream's name of the model; empty is "target-model"
	Settings json.RawMessage `json:"settings"` // of the provider, in place of those of the others
	Options  json.RawMessage `json:"options"`  // of the target
	Limits   struct {
		MaxTokens        int64 `json:"max_tokens"`
		DefaultMaxTokens int64 `json:"default_max_tokens"`
	} `json:"limits"`
	Status      int               `json:"status"`       // of the answer; 0 is 200
	ContentType string            `json:"content_type"` // of the answer; empty is what the file's name says
	Headers     map[string]string `json:"headers"`      // of the answer, with names in lower case
}

// LoadVectors reads the vectors below a folder, in the order of their names.
func LoadVectors(dir string) ([]*Vector, error) {
	var vectors []*Vector
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "request.json" {
			return err
		}
		v, err := load(dir, filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Dir(path), err)
		}
		vectors = append(vectors, v)
		return nil
	})
	return vectors, err
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
		dec := json.NewDecoder(bytes.NewReader(more))
		dec.DisallowUnknownFields()
		if err := dec.Decode(v); err != nil {
			return nil, fmt.Errorf("vector.json: %w", err)
		}
	}
	for _, form := range responseFiles {
		body, err := optional(dir, form.file)
		if err != nil {
			return nil, err
		}
		if body == nil {
			continue
		}
		if v.Response != nil {
			return nil, errors.New("two answers")
		}
		v.Response = body
		if v.ContentType == "" {
			v.ContentType = form.contentType
		}
	}
	if v.Target == "" {
		v.Target = "target-model"
	}
	if v.Status == 0 {
		v.Status = 200
	}
	return v, nil
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
		problems = append(problems, fmt.Sprintf("the request depends on more than the request:\n%s%s\nand\n%s%s", w.Request, w.Warnings, s.Request, s.Warnings))
	}
	if share := o.Share(); share > MaxShare {
		problems = append(problems, fmt.Sprintf("a call took %.0f%% of its budget, more than %.0f%%", 100*share, 100*MaxShare))
	}
	return problems
}

// Share is the greatest part of its budget that a call took.
func (o Outcome) Share() float64 { return max(o.Whole.Cost.Share, o.Stream.Cost.Share) }

// MaxShare is how much of its budget a call may take, also for a request that was made to be expensive.
const MaxShare = 2.0 / 3

// WantFile is the file of a vector's folder with its expected outcome.
const WantFile = "want.txt"
