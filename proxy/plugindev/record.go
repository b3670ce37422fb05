package plugindev

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// RecordOptions are the options of a RecordWriter.
type RecordOptions struct {
	Dir    string // created if it does not exist; only its owner can read the files
	Module Module // the plugin of the provider, router or filter
	File   string // file of the module; "" for a bundled plugin
	Use    Use    // the configuration of the provider, router or filter
	Count  int    // number of vectors after which Write returns; 0 for no limit
	// Written is called after each vector. problem is the reason why it has no want.txt, or "".
	Written func(name, problem string)
}

// Recorded counts the requests that were recorded.
type Recorded struct {
	Vectors int   // written as vectors
	Left    int   // not written, because the client disconnected early
	Dropped int64 // not written, because of the memory limit or because a credential could not be removed
}

// RecordWriter writes the recordings of a provider, router or filter as vectors. It belongs to one goroutine.
type RecordWriter struct {
	o       RecordOptions
	plugin  *Plugin
	binding *Binding
	last    int // number of the last vector
}

// NewRecordWriter loads the plugin, and prepares the folder, which may already contain vectors for the same plugin. The
// caller closes the RecordWriter.
func NewRecordWriter(ctx context.Context, h *Host, o RecordOptions) (*RecordWriter, error) {
	w := &RecordWriter{o: o}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d-", &n); err == nil {
			w.last = max(w.last, n)
		}
	}
	if err := w.writeSuite(); err != nil {
		return nil, err
	}
	if w.plugin, err = h.Load(ctx, o.Module); err != nil {
		return nil, err
	}
	if w.binding, err = w.plugin.Bind(ctx, o.Use); err != nil {
		w.plugin.Close()
		return nil, err
	}
	return w, nil
}

// Close unloads the plugin.
func (w *RecordWriter) Close() { w.plugin.Close() }

// Write writes each recorded request as a vector, with the plugin's outcome as want.txt, until ctx ends, and then those
// already queued. If the plugin itself fails, the vector has no want.txt, so that it fails until the plugin is
// fixed.
func (w *RecordWriter) Write(ctx context.Context, from *recording.Recorder) (done Recorded, err error) {
	defer func() { done.Dropped += from.Dropped() }()
	for w.o.Count == 0 || done.Vectors < w.o.Count {
		t, err := from.Next(ctx)
		if err != nil {
			return done, nil
		}
		written, err := w.write(t)
		left := t.Ending == recording.Disconnected
		t.Release()
		switch {
		case err != nil:
			return done, err
		case written:
			done.Vectors++
		case left:
			done.Left++
		default:
			done.Dropped++
		}
	}
	return done, nil
}

// writeSuite writes suite.json, or checks that an existing one is for the same plugin.
func (w *RecordWriter) writeSuite() error {
	if text, err := readOptional(w.o.Dir, SuiteFile); err != nil || text != nil {
		var s struct{ Plugin string }
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err == nil && s.Plugin != w.o.Module.Name {
			err = fmt.Errorf("%s has vectors of plugin %s, not %s", w.o.Dir, s.Plugin, w.o.Module.Name)
		}
		return err
	}
	s := struct {
		Plugin   string          `json:"plugin"`
		Module   string          `json:"module,omitempty"`
		Settings json.RawMessage `json:"settings,omitempty"`
		Paths    []string        `json:"paths,omitempty"`
		Headers  []string        `json:"headers,omitempty"`
	}{Plugin: w.o.Module.Name, Settings: []byte(w.o.Use.Settings), Paths: w.o.Use.Paths, Headers: w.o.Use.Headers}
	if w.o.File != "" {
		file, err := filepath.Abs(w.o.File)
		if err != nil {
			return err
		}
		dir, err := filepath.Abs(w.o.Dir)
		if err != nil {
			return err
		}
		if s.Module, err = filepath.Rel(dir, file); err != nil {
			s.Module = file
		}
	}
	return writeJSON(filepath.Join(w.o.Dir, SuiteFile), s)
}

// transferHeaders are response headers that concern the transfer, and are not part of a vector.
var transferHeaders = map[string]bool{
	"connection": true, "content-encoding": true, "content-length": true, "date": true, "keep-alive": true, "transfer-encoding": true,
}

// vectorFile is vector.json.
type vectorFile struct {
	Form       string          `json:"form,omitempty"`
	ClientForm string          `json:"client_form,omitempty"`
	Betas      []string        `json:"betas,omitempty"`
	Target     string          `json:"target"`
	Options    json.RawMessage `json:"options,omitempty"`
	Limits     *Limits         `json:"limits,omitempty"`
	answerFile                 // the only response
	Answers    []answerFile    `json:"answers,omitempty"` // several responses
}

// answerFile is what vector.json says of a response.
type answerFile struct {
	Status    int               `json:"status,omitempty"`
	Truncated bool              `json:"truncated,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}

// write writes a vector. It returns false if the request is not recorded: its client disconnected, or a credential in a
// binary stream cannot be removed.
func (w *RecordWriter) write(t *recording.Tape) (written bool, err error) {
	if t.Ending == recording.Disconnected {
		return false, nil
	}
	if t.Input != nil {
		return w.writeInput(t)
	}
	files := map[string][]byte{"request.json": t.Redact(t.Request.Body)}
	v := vectorFile{Form: t.Request.Form, ClientForm: t.Request.ClientForm, Betas: t.Request.Betas, Target: t.Request.Target}
	if v.ClientForm == v.Form {
		v.ClientForm = ""
	}
	if v.Form == "chat" {
		v.Form = ""
	}
	if len(t.Request.Options) > 0 && string(t.Request.Options) != "{}" {
		v.Options = t.Request.Options
	}
	if l := (Limits{t.Request.MaxTokens, t.Request.DefaultMaxTokens}); l != (Limits{}) {
		v.Limits = &l
	}
	kind, outcome := "whole", "own"
	if t.Request.Stream {
		kind = "stream"
	}
	for i := range t.Responses {
		r := &t.Responses[i]
		body, a := t.Redact(r.Body), answerFile{Headers: make(map[string]string), Truncated: i == len(t.Responses)-1 && t.Ending == recording.Truncated}
		if r.Framing == abi.FramingAWSEventStream && !bytes.Equal(body, r.Body) {
			return false, nil // redacting has invalidated the stream's checksums
		}
		if outcome = fmt.Sprint(r.Status); r.Status != 200 {
			a.Status = r.Status
		}
		for _, h := range r.Headers {
			if _, known := a.Headers[h.Name]; !known && plugin.MayReadHeader(h.Name) && !transferHeaders[h.Name] {
				a.Headers[h.Name] = string(t.Redact([]byte(h.Value)))
			}
		}
		number := ""
		if len(t.Responses) == 1 {
			v.answerFile = a
		} else {
			v.Answers, number = append(v.Answers, a), fmt.Sprintf(".%d", i+1)
		}
		files["answer"+number+responseFiles[r.Framing].extension] = body
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, err
	}
	files["vector.json"] = append(t.Redact(text), '\n')
	w.last++
	name := fmt.Sprintf("%04d-%s-%s-%s", w.last, cmp.Or(t.Request.ClientForm, t.Request.Form, "chat"), kind, outcome)
	return true, w.writeFolder(name, files)
}

// writeInput writes what a router or filter has received as a vector.
func (w *RecordWriter) writeInput(t *recording.Tape) (written bool, err error) {
	in, files := t.Input, make(map[string][]byte)
	more := struct {
		What     string          `json:"what,omitempty"`
		Text     string          `json:"text,omitempty"`
		Tags     []string        `json:"tags,omitempty"`
		Settings json.RawMessage `json:"settings,omitempty"`
	}{Tags: in.Tags}
	if string(in.Settings) != w.o.Use.Settings {
		more.Settings = in.Settings // a plugin may be used more than once
	}
	name, file := "targets", "vector.json"
	if in.Document != nil {
		files[targetsFile] = append(t.Redact(in.Document), '\n')
	} else {
		name, file, more.Text = textKind(in.What), textFile, string(in.Text)
		more.What = name
	}
	if in.Document == nil || more.Settings != nil {
		text, err := json.MarshalIndent(more, "", "  ")
		if err != nil {
			return false, err
		}
		files[file] = append(t.Redact(text), '\n')
	}
	w.last++
	return true, w.writeFolder(fmt.Sprintf("%04d-%s", w.last, name), files)
}

// writeFolder writes a vector's files, and its want.txt. It renames the folder when it is complete, so that incomplete
// vectors are not visible.
func (w *RecordWriter) writeFolder(name string, files map[string][]byte) (err error) {
	dir := filepath.Join(w.o.Dir, ".writing")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return err
		}
	}
	c, err := loadCase(w.o.Dir, dir)
	if err != nil {
		return err
	}
	b, problem := w.binding, ""
	if own := c.settings(); len(own) > 0 {
		if b, err = w.plugin.Bind(context.Background(), Use{Settings: string(own), Paths: w.o.Use.Paths, Headers: w.o.Use.Headers}); err != nil {
			return err
		}
	}
	o := c.outcome(b)
	problem = strings.Join(o.problems, "\n")
	if o.failure != nil {
		problem = o.failure.Error()
	}
	if problem == "" {
		if err := os.WriteFile(filepath.Join(dir, WantFile), []byte(o.text), 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, filepath.Join(w.o.Dir, name)); err != nil {
		return err
	}
	if w.o.Written != nil {
		w.o.Written(name, problem)
	}
	return nil
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
