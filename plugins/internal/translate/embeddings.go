package translate

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Embeddings holds the members of an embeddings request. Its slices share the memory of the client's body.
type Embeddings struct {
	Input      json.Value // a string, or an array of strings
	Dimensions json.Value // a number, nil if unset
}

// ReadEmbeddings reads a client's embeddings request. It calls extra for each member that the OpenAI API lacks; if
// extra returns false because the provider lacks the member too, it is dropped with a warning. Inputs other than texts
// are rejected.
func ReadEmbeddings(r *provider.Request, in *json.Reader, extra func(in *json.Reader) bool) (e Embeddings, err error) {
	in.Reset(r.Body())
	for o := in.Object(); o.Next() && err == nil; {
		if in.Kind() == json.Null {
			continue
		}
		switch string(in.Name()) {
		case "model", "encoding_format": // the gateway handles these
		case "input":
			e.Input = in.Raw()
			err = checkTexts(e.Input)
		case "dimensions":
			e.Dimensions = in.Raw()
		default:
			if extra == nil || !extra(in) {
				r.Warn(abi.WarnDropped, Printable(in.Name()))
			}
		}
	}
	if err == nil {
		err = in.End()
	}
	return e, err
}

// checkTexts rejects an input that is neither a string nor an array of strings.
func checkTexts(input json.Value) error {
	if input.Kind() == json.String {
		return nil
	}
	var in json.Reader
	in.Reset(input)
	for a := in.Array(); a.Next(); {
		if in.Kind() != json.String {
			return sdk.Refuse("input", "This provider takes texts only.")
		}
	}
	return nil
}

// WriteTexts writes the inputs as an array.
func (e *Embeddings) WriteTexts(w *json.Writer) {
	if e.Input.Kind() == json.Array {
		w.Raw(e.Input)
		return
	}
	w.Array()
	w.Raw(e.Input)
	w.EndArray()
}

// EachText calls add with each input, a JSON string, in order.
func (e *Embeddings) EachText(add func(text json.Value)) {
	if e.Input.Kind() != json.Array {
		add(e.Input)
		return
	}
	var in json.Reader
	in.Reset(e.Input)
	for a := in.Array(); a.Next(); {
		add(in.Raw())
	}
}

// EmitVectors reports the vectors of the current array, whose elements are arrays of numbers, one for each input. It
// returns their number.
func EmitVectors(a *provider.Answer, r *json.Reader) (n int32) {
	for l := r.Array(); l.Next(); n++ {
		if vector := r.Raw(); len(vector) > 0 { // otherwise the reader has failed
			a.Embedding(n, vector)
		}
	}
	return n
}

// EmitCohereVectors reports the vectors of the current value in the format of Cohere's models: an object with an array
// for each embedding type, of which it reads float, or the array alone.
func EmitCohereVectors(a *provider.Answer, r *json.Reader) (n int32) {
	if r.Kind() == json.Array {
		return EmitVectors(a, r)
	}
	for types := r.Object(); types.Next(); {
		if string(r.Name()) == "float" {
			n = EmitVectors(a, r)
		}
	}
	return n
}

// EmbedState marks an attempt at an embeddings request, whose response is not in the format of a chat response.
const EmbedState = "embed"

// Embeds reports whether the response belongs to an embeddings request.
func Embeds(a *provider.Answer) bool { return string(a.State()) == EmbedState }
