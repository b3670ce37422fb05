package gemini

import (
	"bytes"
	"errors"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are facts about a model and choices of the operator, described in the package comment. Their slices share the
// memory of the document that they were read from.
type options struct {
	vertex                       bool
	project, location, publisher []byte
	levels                       levelSet         // 0 means by the model's name
	byLevel                      translate.Choice // the model has thinking levels instead of a budget
	alwaysThinking               translate.Choice
	requireSignature             translate.Choice // a call in the history needs its signature
	openAPI                      bool             // schemas are reduced to the provider's format
	fileURI                      bool
	streamArguments              bool
	safety                       json.Value
}

// Configure reads the settings of a provider.
func (p *gemini) Configure(settings json.Value) error {
	o := options{publisher: []byte("google")}
	if err := o.read(settings); err != nil {
		return err
	}
	if o.vertex && (len(o.project) == 0 || len(o.location) == 0) {
		return errors.New("api \"vertex\" requires the options project and location")
	}
	p.settings = o
	return nil
}

// read overrides o with the members of v.
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
			o.byLevel, ok = translate.Choose(translate.OneOf(r.Text(), "level", "budget"))
		case "levels":
			o.levels, ok = readLevels(r)
		case "always_thinking":
			o.alwaysThinking, ok = translate.Choose(r.Bool())
		case "schema":
			o.openAPI, ok = translate.OneOf(r.Text(), "openapi", "json")
		case "signatures":
			o.requireSignature, ok = translate.Choose(translate.OneOf(r.Text(), "demanded", "optional"))
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

// applyModelDefaults fills in unset options from the model's name.
func (o *options) applyModelDefaults(model []byte) {
	third := generation(model) >= 3
	pro := bytes.Contains(model, []byte("pro"))
	o.byLevel, _ = translate.Choose(o.byLevel.Or(third), true)
	o.requireSignature, _ = translate.Choose(o.requireSignature.Or(third), true)
	o.alwaysThinking, _ = translate.Choose(o.alwaysThinking.Or(pro), true)
	if o.levels == 0 {
		o.levels = 1<<levels - 1
		if pro {
			o.levels &^= 1 << levelMinimal
		}
	}
}

// generation returns the number after "gemini-" in a model's name, 0 if there is none.
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
