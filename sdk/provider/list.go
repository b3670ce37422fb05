package provider

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// List is the request for a page of the upstream's list of models. Its method is GET.
type List struct {
	refused string
}

// SetPath says where the request goes; see Request.SetPath.
func (l *List) SetPath(path string) {
	if host.RequestPath(host.Bytes(path)) != abi.StatusOK && l.refused == "" {
		l.refused = "request_path"
	}
}

// SetHeader adds a header; see Request.SetHeader.
func (l *List) SetHeader(name, value string) {
	if host.RequestHeader(host.Bytes(name), host.Bytes(value)) != abi.StatusOK && l.refused == "" {
		l.refused = "request_header"
	}
}

func (l *List) finish(err error) error {
	if err == nil && l.refused != "" {
		return refusal(l.refused)
	}
	return err
}

// Model is a model that the upstream offers. Only the ID is needed; what is zero is not said. A model that the
// configuration describes keeps what is said there.
type Model struct {
	ID          []byte // as the upstream calls it
	DisplayName []byte
	OwnedBy     []byte
	Created     int64 // Unix time in seconds
	MaxTokens   int64 // the most that one answer may have
	Thinking    bool  // can be asked to reason

	// Prices in US dollars for a million tokens, as JSON numbers.
	InputPrice, OutputPrice json.Value
}

// Models is where a provider says what a page of the list holds.
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

// More says that another page follows, and what List needs to ask for it.
func (m *Models) More(cursor []byte) { host.More(cursor) }

// Header is a header of the upstream's answer; see Answer.Header.
func (m *Models) Header(name string) []byte {
	p, _ := guest.Fetch(&m.store, func(dst []byte) int32 { return host.ResponseHeader(host.Bytes(name), dst) })
	return p
}

// Unknown says that something was skipped; see Answer.Unknown.
func (m *Models) Unknown(what []byte) { host.Unknown(what) }
