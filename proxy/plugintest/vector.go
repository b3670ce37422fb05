package plugintest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Vector is a client's request and an upstream's answer to it. The members with a name in JSON come from vector.json.
type Vector struct {
	Name     string `json:"-"` // the folder's path below that of all vectors
	Request  []byte `json:"-"` // the client's body
	Response []byte `json:"-"` // the upstream's body, nil if there is none
	dir      string

	// Form is the API whose request this is, as Messages clients and others write it; empty is chat completions. A plugin gets such a
	// request only if it has declared the form. ClientForm is the API that the client uses, if that is another one.
	Form       string   `json:"form"`
	ClientForm string   `json:"client_form"`
	Betas      []string `json:"betas"` // of a Messages client

	Target   string          `json:"target"`   // the upstream's name of the model; empty is "target-model"
	Settings json.RawMessage `json:"settings"` // in place of the suite's
	Options  json.RawMessage `json:"options"`  // of the target
	Limits   struct {
		MaxTokens        int64 `json:"max_tokens"`
		DefaultMaxTokens int64 `json:"default_max_tokens"`
	} `json:"limits"`
	Status      int               `json:"status"`       // of the answer; 0 is 200
	ContentType string            `json:"content_type"` // of the answer; empty is what the file's name says
	Headers     map[string]string `json:"headers"`      // of the answer, with names in lower case
}

// Load reads the vectors below a folder, in the order of their names.
func Load(dir string) ([]*Vector, error) {
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
	v := &Vector{Name: filepath.ToSlash(name), dir: dir}
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

// settings are those that the plugin is bound with for this vector.
func (v *Vector) settings(u Use) string {
	if len(v.Settings) > 0 {
		return string(v.Settings)
	}
	return u.Settings
}

// check runs the vector, whole and streamed, and compares what comes of it with want.txt.
func (v *Vector) check(t *testing.T, b *Binding) {
	t.Helper()
	whole, stream := v.Run(b, false), v.Run(b, true)
	if whole.Request != stream.Request || whole.Warnings != stream.Warnings {
		t.Errorf("the request depends on more than the request:\n%s%s\nand\n%s%s", whole.Request, whole.Warnings, stream.Request, stream.Warnings)
	}
	var got strings.Builder
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&got, "-- %s --\n%s\n", name, strings.TrimRight(text, "\n"))
		}
	}
	section("request", whole.Request)
	section("warnings", whole.Warnings)
	section("whole", whole.Response)
	if streams(v.Form) {
		section("stream", stream.Response)
	}
	file := filepath.Join(v.dir, "want.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if whole.Err != nil {
		t.Logf("ended by: %v", whole.Err)
	}
	share := max(whole.Cost.Share, stream.Cost.Share)
	t.Logf("fuel: request %d, answer %d in %d calls, %.2f%% of a budget at most", whole.Cost.Request, whole.Cost.Reading, whole.Cost.Reads, 100*share)
	if share > maxShare {
		t.Errorf("a call took %.0f%% of its budget, more than %.0f%%", 100*share, 100*maxShare)
	}
}

// maxShare is how much of its budget a call may take, also for a request that was made to be expensive.
const maxShare = 2.0 / 3
