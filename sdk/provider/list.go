package provider

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// List builds the request for a page of the upstream's model list. The method is GET.
type List struct {
	rejected string // name of the first import that the gateway rejected, empty if none
}

// SetPath sets the path; see Request.SetPath.
func (l *List) SetPath(path string) {
	if host.RequestPath(host.Bytes(path)) != abi.StatusOK && l.rejected == "" {
		l.rejected = "request_path"
	}
}

// SetHeader adds a header; see Request.SetHeader.
func (l *List) SetHeader(name, value string) {
	if host.RequestHeader(host.Bytes(name), host.Bytes(value)) != abi.StatusOK && l.rejected == "" {
		l.rejected = "request_header"
	}
}

func (l *List) finish(err error) error {
	if err == nil && l.rejected != "" {
		return rejectedImport(l.rejected)
	}
	return err
}

// Model is a model that the upstream offers. Only ID is required; fields with the zero value are omitted. Values in the
// gateway's configuration take precedence.
type Model struct {
	ID          []byte // the upstream's name for the model
	DisplayName []byte
	OwnedBy     []byte
	Created     int64 // Unix time in seconds
	MaxTokens   int64 // maximum completion tokens
	Thinking    bool  // supports reasoning

	// Kinds are the kinds of requests that the model serves: "chat", "embeddings", "rerank", "completions",
	// "moderations". Empty if the upstream does not say.
	Kinds []string

	// InputPrice and OutputPrice are prices in US dollars per million tokens, as JSON numbers. They are reported only
	// if both are set.
	InputPrice, OutputPrice json.Value
}

// Models receives the models on a page of the list.
type Models struct {
	writer json.Writer
	store  []byte
}

// Add adds a model.
func (m *Models) Add(model *Model) {
	w := &m.writer
	w.Reset()
	w.Object()
	w.Name("id")
	w.Text(model.ID)
	if len(model.DisplayName) > 0 {
		w.Name("display_name")
		w.Text(model.DisplayName)
	}
	if len(model.OwnedBy) > 0 {
		w.Name("owned_by")
		w.Text(model.OwnedBy)
	}
	if model.Created != 0 {
		w.Name("created")
		w.Int(model.Created)
	}
	if model.MaxTokens != 0 {
		w.Name("max_tokens")
		w.Int(model.MaxTokens)
	}
	if model.Thinking {
		w.Name("thinking")
		w.Bool(true)
	}
	if len(model.Kinds) > 0 {
		w.Name("kinds")
		w.Array()
		for _, kind := range model.Kinds {
			w.String(kind)
		}
		w.EndArray()
	}
	if model.InputPrice.Kind() == json.Number && model.OutputPrice.Kind() == json.Number {
		w.Name("pricing")
		w.Object()
		w.Name("input")
		w.Raw(model.InputPrice)
		w.Name("output")
		w.Raw(model.OutputPrice)
		w.EndObject()
	}
	w.EndObject()
	host.Model(w.Buf)
}

// More reports that another page follows; cursor is passed to List.
func (m *Models) More(cursor []byte) { host.More(cursor) }

// Header returns a header of the upstream's response; see Answer.Header.
func (m *Models) Header(name string) []byte {
	p, _ := guest.Fetch(&m.store, func(dst []byte) int32 { return host.ResponseHeader(host.Bytes(name), dst) })
	return p
}

// Unknown reports that something was skipped; see Answer.Unknown.
func (m *Models) Unknown(what []byte) { host.Unknown(what) }
