package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// List requests a page of the model list (https://docs.claude.com/en/api/models-list).
func (p *anthropic) List(l *provider.List, cursor []byte) error {
	if p.settings.options.cloud != noCloud || p.settings.options.noList {
		return nil
	}
	path := "/v1/models?limit=1000"
	if len(cursor) > 0 {
		path += "&after_id=" + string(cursor)
	}
	l.SetPath(path)
	l.SetHeader("anthropic-version", p.settings.options.version)
	return nil
}

// Models reads a page of the model list.
func (p *anthropic) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return failure(json.Value(body).Get("error"), status)
	}
	r := &p.reader
	r.Reset(body)
	var listed, more bool
	var last []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "data":
			listed = r.Kind() == json.Array
			for list := r.Array(); list.Next(); {
				if model, ok := readModel(r); ok {
					m.Add(&model)
				}
			}
		case "has_more":
			more, _ = r.Bool()
		case "last_id":
			last = r.Text()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if !listed {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	if more && plainID(last) {
		m.More(last)
	}
	return nil
}

func readModel(r *json.Reader) (m provider.Model, ok bool) {
	m.OwnedBy = []byte("anthropic")
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "id":
			m.ID = r.Text()
		case "display_name":
			m.DisplayName = r.Text()
		case "created_at":
			m.Created = unixTime(r.Inside())
		case "max_tokens":
			m.MaxTokens, _ = r.Int()
		case "capabilities":
			m.Thinking, _ = json.Value(r.Raw()).Get("thinking").Get("supported").Bool()
		}
	}
	return m, len(m.ID) > 0
}

// plainID reports whether an ID can be part of a query without escaping.
func plainID(id []byte) bool {
	for _, c := range id {
		if !translate.NameByte(c) && c != '.' && c != ':' {
			return false
		}
	}
	return len(id) > 0
}

// unixTime parses an RFC 3339 time in UTC such as "2025-09-29T00:00:00Z". It returns 0 for anything else.
func unixTime(s []byte) int64 {
	const layout = "0000-00-00T00:00:00Z"
	if len(s) != len(layout) {
		return 0
	}
	for i := range s {
		digit := '0' <= s[i] && s[i] <= '9'
		if digit != (layout[i] == '0') || !digit && s[i] != layout[i] {
			return 0
		}
	}
	field := func(from, to int) (n int64) {
		for _, c := range s[from:to] {
			n = n*10 + int64(c-'0')
		}
		return n
	}
	year, month, day := field(0, 4), field(5, 7), field(8, 10)
	// Days since 1970 in the Gregorian calendar, with years that begin in March.
	if month <= 2 {
		year--
		month += 12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
	return days*86400 + field(11, 13)*3600 + field(14, 16)*60 + field(17, 19)
}
