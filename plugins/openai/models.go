package openai

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// List requests the model list, which has one page. There is no list if it sets no path.
func (p *openai) List(l *provider.List, cursor []byte) error {
	if p.modelsPath != "" {
		l.SetPath(p.modelsPath)
	}
	return nil
}

// Models reads the list: {"data":[…]}, or only the array, as some upstreams send it.
func (p *openai) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return sdk.Fail(listFailure(status), "")
	}
	var r json.Reader
	r.Reset(body)
	if r.Kind() == json.Array {
		readModels(m, &r)
		return r.End()
	}
	found := false
	for o := r.Object(); o.Next(); {
		if string(r.Name()) == "data" && r.Kind() == json.Array {
			found = true
			readModels(m, &r)
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if !found {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	return nil
}

func listFailure(status int) abi.FailKind {
	switch status {
	case 401, 403:
		return abi.FailAuth
	case 429:
		return abi.FailRateLimit
	case 503:
		return abi.FailOverloaded
	}
	return abi.FailServer
}

// readModels reads the elements of the current array.
func readModels(m *provider.Models, r *json.Reader) {
	for a := r.Array(); a.Next(); {
		var model provider.Model
		for o := r.Object(); o.Next(); {
			switch string(r.Name()) {
			case "id":
				model.ID = r.Text()
			case "created":
				model.Created, _ = r.Int()
			case "owned_by":
				model.OwnedBy = r.Text()
			case "display_name", "name":
				model.DisplayName = r.Text()
			}
		}
		if len(model.ID) > 0 && len(model.ID) <= abi.MaxName {
			model.Kinds = kindsByName(model.ID)
			m.Add(&model)
		}
	}
}
