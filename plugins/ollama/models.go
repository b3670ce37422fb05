package ollama

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// List requests the model list, which has one page.
func (p *ollama) List(l *provider.List, _ []byte) error {
	l.SetPath("/api/tags")
	return nil
}

// Models reads the model list.
func (p *ollama) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return failure(json.Value(body).Get("error"), status)
	}
	r := &p.reader
	r.Reset(body)
	listed := false
	for o := r.Object(); o.Next(); {
		if string(r.Name()) != "models" {
			continue
		}
		// The list of a server without models is null.
		listed = r.Kind() == json.Array || r.Kind() == json.Null
		for list := r.Array(); list.Next(); {
			if model, ok := readModel(r); ok {
				m.Add(&model)
			}
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if !listed {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	return nil
}

// readModel reads a model. ok is false if the gateway supports none of its capabilities.
func readModel(r *json.Reader) (m provider.Model, ok bool) {
	hasCapabilities := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "model":
			m.ID = r.Text()
		case "name":
			if name := r.Text(); len(m.ID) == 0 {
				m.ID = name // older servers have no member model
			}
		case "modified_at":
			m.Created = unixTime(r.Inside())
		case "capabilities":
			if hasCapabilities = r.Kind() == json.Array; hasCapabilities {
				m.Kinds, m.Thinking = readCapabilities(r)
			}
		}
	}
	m.OwnedBy = modelOwner(m.ID)
	return m, (!hasCapabilities || len(m.Kinds) > 0) && len(m.ID) > 0
}

// readCapabilities returns the kinds of requests that a model serves, and whether it can think.
func readCapabilities(r *json.Reader) (kinds []string, thinks bool) {
	for list := r.Array(); list.Next(); {
		switch string(r.Inside()) {
		case "completion":
			kinds = append(kinds, "chat")
		case "embedding":
			kinds = append(kinds, "embeddings")
		case "thinking":
			thinks = true
		}
	}
	return kinds, thinks
}

// modelOwner returns the owner in a model name of the form [[host/]owner/]model[:tag]. The default is library.
func modelOwner(id []byte) []byte {
	end := bytes.LastIndexByte(id, '/')
	if end <= 0 {
		return []byte("library")
	}
	return id[bytes.LastIndexByte(id[:end], '/')+1 : end]
}

// unixTime parses an RFC 3339 time such as "2025-08-20T13:48:24.316155+02:00". It returns 0 for anything else.
func unixTime(s []byte) int64 {
	const layout = "0000-00-00T00:00:00"
	if len(s) < len(layout)+1 || !matchesLayout(s[:len(layout)], layout) {
		return 0
	}
	zone := s[len(layout):]
	if zone[0] == '.' {
		n := 1
		for n < len(zone) && '0' <= zone[n] && zone[n] <= '9' {
			n++
		}
		zone = zone[n:]
	}
	offset := int64(0)
	switch {
	case string(zone) == "Z":
	case matchesLayout(zone, "+00:00"):
		offset = parseDigits(zone[1:3])*3600 + parseDigits(zone[4:6])*60
	case matchesLayout(zone, "-00:00"):
		offset = -parseDigits(zone[1:3])*3600 - parseDigits(zone[4:6])*60
	default:
		return 0
	}
	year, month, day := parseDigits(s[0:4]), parseDigits(s[5:7]), parseDigits(s[8:10])
	// Days since 1970 in the Gregorian calendar, with years that begin in March.
	if month <= 2 {
		year--
		month += 12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
	return max(0, days*86400+parseDigits(s[11:13])*3600+parseDigits(s[14:16])*60+parseDigits(s[17:19])-offset)
}

// matchesLayout reports whether s equals a layout in which 0 stands for any digit.
func matchesLayout(s []byte, layout string) bool {
	if len(s) != len(layout) {
		return false
	}
	for i, c := range s {
		if digit := '0' <= c && c <= '9'; digit != (layout[i] == '0') || !digit && c != layout[i] {
			return false
		}
	}
	return true
}

func parseDigits(s []byte) (n int64) {
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	return n
}
