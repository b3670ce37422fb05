package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// contentParts is a set of types of content parts.
type contentParts uint8

const (
	partText contentParts = 1 << iota
	partImage
	partAudio
	partFile
	partRefusal
	partVideo
)

// partTypes are the type names of contentParts, by bit.
var partTypes = [...]string{"text", "image_url", "input_audio", "file", "refusal", "video_url"}

func (s contentParts) names() (names []string) {
	for i, name := range partTypes {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// needContent reads a message's content, a string or an array of parts of the allowed types.
func (r *Request) needContent(m *message, allowed contentParts) *apierror.Error {
	c := m.content
	switch c.Kind() {
	case jsondoc.String:
		r.TextBytes += len(c.Inside())
		return nil
	case jsondoc.Invalid:
		return clientapi.Missing(m.self, "content")
	case jsondoc.Array:
	default:
		return clientapi.WrongType(c, "a string or an array of content parts")
	}
	if isEmptyArray(c) {
		return clientapi.Missing(m.self, "content")
	}
	for p := c.First(); p.Exists(); p = p.Next() {
		if p.Kind() != jsondoc.Object {
			return clientapi.WrongType(p, "an object")
		}
		if e := r.readPart(p, allowed); e != nil {
			return e
		}
	}
	return nil
}

// readPart reads a content part: {type, [type]: …}.
func (r *Request) readPart(p jsondoc.Value, allowed contentParts) *apierror.Error {
	var typ jsondoc.Value
	var values [len(partTypes)]jsondoc.Value
	for c := p.First(); c.Exists(); c = c.Next() {
		switch string(r.keyword(c.Name())) {
		case "type":
			typ = c
		case "text":
			values[0] = c
		case "image_url":
			values[1] = c
		case "input_audio":
			values[2] = c
		case "file":
			values[3] = c
		case "refusal":
			values[4] = c
		case "video_url":
			values[5] = c
		case "cache_control":
			if e := r.readCacheControl(c); e != nil {
				return e
			}
		}
	}
	if e := clientapi.NeedString(typ, p, "type"); e != nil {
		return e
	}
	for i, name := range partTypes {
		if allowed&(1<<i) == 0 || !typ.Is(name) {
			continue
		}
		v := values[i]
		switch contentParts(1 << i) {
		case partText, partRefusal:
			r.TextBytes += len(v.Inside())
			return clientapi.NeedString(v, p, name)
		case partImage:
			r.Flags |= clientapi.FlagImages
			r.Images++
			return r.readMedia(v, p, name)
		case partVideo:
			r.Flags |= clientapi.FlagFiles
			return r.readMedia(v, p, name)
		case partAudio:
			r.Flags |= clientapi.FlagAudio
			return r.readAudio(v, p)
		default:
			r.Flags |= clientapi.FlagFiles
			return r.readFile(v, p)
		}
	}
	return clientapi.NotOneOf(typ, allowed.names()...)
}

// readMedia reads {url, detail} of an image or a video. Many clients send the URL alone, which becomes the object that
// providers expect. The gateway does not fetch the URL; the provider does.
func (r *Request) readMedia(v, p jsondoc.Value, member string) *apierror.Error {
	if v.Kind() == jsondoc.String {
		r.edit().SetValue(v, `{"url":`, string(v.Raw()), `}`)
		return nil
	}
	if e := clientapi.NeedObject(v, p, member); e != nil {
		return e
	}
	if e := clientapi.NeedString(v.Get("url"), v, "url"); e != nil {
		return e
	}
	return clientapi.CheckString(v.Get("detail"))
}

// readAudio reads {data, format}.
func (r *Request) readAudio(v, p jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedObject(v, p, "input_audio"); e != nil {
		return e
	}
	if e := clientapi.NeedString(v.Get("data"), v, "data"); e != nil {
		return e
	}
	return clientapi.NeedString(v.Get("format"), v, "format")
}

// readFile reads {file_data, file_id, filename}. One of the first two is required.
func (r *Request) readFile(v, p jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedObject(v, p, "file"); e != nil {
		return e
	}
	data, id := v.Get("file_data"), v.Get("file_id")
	if !clientapi.Given(data) && !clientapi.Given(id) {
		return clientapi.Missing(v, "file_data")
	}
	if e := clientapi.CheckString(data); e != nil {
		return e
	}
	if e := clientapi.CheckString(id); e != nil {
		return e
	}
	return clientapi.CheckString(v.Get("filename"))
}
