package gemini

import (
	"bytes"
	"errors"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are facts of a model and choices of the operator, described in the package comment. Their slices are ranges of
// the document that they were read from.
type options struct {
	vertex                       bool
	project, location, publisher []byte
	levels                       levelSet // 0: by the model's name
	byLevel                      answer   // thinking is asked for by a word
	alwaysThinking               answer
	sealed                       answer // a call in the history needs its seal
	openAPI                      bool   // schemas are reduced
	fileURI                      bool
	streamArguments              bool
	safety                       json.Value
}

// answer is yes, no, or not said.
type answer uint8

const (
	unsaid answer = iota
	yes
	no
)

// or is the answer, given if there is none.
func (a answer) or(given bool) answer {
	switch {
	case a != unsaid:
		return a
	case given:
		return yes
	}
	return no
}

func answerOf(b, ok bool) (answer, bool) {
	if b {
		return yes, ok
	}
	return no, ok
}

// Configure reads the settings of a provider.
func (p *gemini) Configure(settings json.Value) error {
	o := options{publisher: []byte("google")}
	if err := o.read(settings); err != nil {
		return err
	}
	if o.vertex && (len(o.project) == 0 || len(o.location) == 0) {
		return errors.New("option api is vertex, which needs the options project and location")
	}
	p.settings = o
	return nil
}

// read puts the members of v over what is there.
func (o *options) read(v json.Value) error {
	if !v.Exists() {
		return nil
	}
	return translate.Options(v, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "api":
			o.vertex, ok = translate.OneOf(r.Text(), "vertex", "gemini")
		case "project":
			o.project, ok = nonempty(r.Text())
		case "location":
			o.location, ok = nonempty(r.Text())
		case "publisher":
			o.publisher, ok = nonempty(r.Text())
		case "thinking":
			o.byLevel, ok = answerOf(translate.OneOf(r.Text(), "level", "budget"))
		case "levels":
			o.levels, ok = readLevels(r)
		case "always_thinking":
			o.alwaysThinking, ok = answerOf(r.Bool())
		case "schema":
			o.openAPI, ok = translate.OneOf(r.Text(), "openapi", "json")
		case "signatures":
			o.sealed, ok = answerOf(translate.OneOf(r.Text(), "demanded", "optional"))
		case "allow_file_uri":
			o.fileURI, ok = r.Bool()
		case "stream_arguments":
			o.streamArguments, ok = r.Bool()
		case "safety_settings":
			o.safety = r.Raw()
			ok = o.safety.Kind() == json.Array
		default:
			return false, false
		}
		return true, ok
	})
}

func nonempty(text []byte) ([]byte, bool) { return text, len(text) > 0 }

// settle fills in what the model's name says where the options do not.
func (o *options) settle(model []byte) {
	third := generation(model) >= 3
	pro := bytes.Contains(model, []byte("pro"))
	o.byLevel = o.byLevel.or(third)
	o.sealed = o.sealed.or(third)
	o.alwaysThinking = o.alwaysThinking.or(pro)
	if o.levels == 0 {
		o.levels = 1<<levels - 1
		if pro {
			o.levels &^= 1 << levelMinimal
		}
	}
}

// generation is the number that a model's name has behind "gemini-", 0 if there is none.
func generation(model []byte) (n int) {
	_, rest, _ := bytes.Cut(model, []byte("gemini-"))
	for _, c := range rest {
		if c < '0' || c > '9' || n > 99 {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}
