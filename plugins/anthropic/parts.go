package main

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// part is one part of a message's content.
type part struct {
	kind     string
	text     []byte // the inside of a text or refusal
	url      []byte // of an image
	detail   []byte
	fileData []byte
	fileName []byte // the inside of a string
	fileID   bool
	cache    json.Value
}

func readPart(r *json.Reader) (p part) {
	if r.Kind() == json.String {
		return part{kind: "text", text: r.Inside()}
	}
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			p.kind = string(r.Text())
		case "text", "refusal":
			p.text = r.Inside()
		case "cache_control":
			if r.Kind() == json.Object {
				p.cache = r.Raw()
			}
		case "image_url":
			if r.Kind() == json.String {
				p.url = r.Text()
				continue
			}
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "url":
					p.url = r.Text()
				case "detail":
					p.detail = r.Inside()
				}
			}
		case "file":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "file_data":
					p.fileData = r.Text()
				case "filename":
					p.fileName = r.Inside()
				case "file_id":
					p.fileID = r.Kind() == json.String
				}
			}
		}
	}
	return p
}

// part writes one part of a message as a block.
func (t *translation) part(p *part, role string, m *message, n int) error {
	switch p.kind {
	case "text", "refusal":
		if !blank(p.text) {
			t.open(role)
			t.textBlock(p.text, p.cache)
		}
		return nil
	case "image_url":
		if len(p.detail) > 0 && string(p.detail) != "auto" {
			t.r.Warn(abi.WarnDropped, "image_url.detail")
		}
		return t.media(p, p.url, role, m.param(".content["+number(n)+"].image_url.url"))
	case "file":
		param := m.param(".content[" + number(n) + "].file")
		if p.fileID {
			return sdk.Refuse(param+".file_id", "This provider does not know files that were uploaded elsewhere; send file_data.")
		}
		return t.media(p, p.fileData, role, param+".file_data")
	}
	return &sdk.Failure{
		Kind: abi.FailUnsupported, Code: "unsupported_content", Param: m.param(".content[" + number(n) + "]"),
		Message: "This provider does not take content of this type.",
	}
}

// media writes an image or a document, given by a data URL, by another URL, or for a file by its base64 alone.
func (t *translation) media(p *part, from []byte, role, param string) error {
	w := t.w
	mediaType, data, ok := splitDataURL(from)
	address := false
	switch {
	case ok && !base64Valid(data):
		return invalid("invalid_base64", param, "The data is not valid base64.")
	case ok:
	case bytes.HasPrefix(from, []byte("https://")) || bytes.HasPrefix(from, []byte("http://")):
		address = true
	case p.kind == "file" && len(from) > 0 && base64Valid(from):
		mediaType, data = []byte("application/pdf"), from
	default:
		return invalid("invalid_value", param, "Expected a data URL with base64 data, or an http or https URL.")
	}
	kind := "image"
	if p.kind == "file" || string(mediaType) == "application/pdf" {
		kind = "document"
	}
	t.open(role)
	w.Object()
	w.Name("type")
	w.String(kind)
	w.Name("source")
	w.Object()
	w.Name("type")
	if address {
		w.String("url")
		w.Name("url")
		w.Text(from)
	} else {
		w.String("base64")
		w.Name("media_type")
		w.Text(mediaType)
		w.Name("data")
		// Base64 holds nothing that would be escaped.
		w.Inside(data)
	}
	w.EndObject()
	if kind == "document" && len(p.fileName) > 0 {
		w.Name("title")
		w.Inside(p.fileName)
	}
	t.cacheControl(p.cache)
	w.EndObject()
	return nil
}

// splitDataURL cuts data:TYPE;base64,DATA (RFC 2397).
func splitDataURL(u []byte) (mediaType, data []byte, ok bool) {
	rest, ok := bytes.CutPrefix(u, []byte("data:"))
	if !ok {
		return nil, nil, false
	}
	head, data, ok := bytes.Cut(rest, []byte{','})
	if !ok {
		return nil, nil, false
	}
	mediaType, ok = bytes.CutSuffix(head, []byte(";base64"))
	if i := bytes.IndexByte(mediaType, ';'); i >= 0 {
		mediaType = mediaType[:i]
	}
	return mediaType, data, ok && len(mediaType) > 0
}

// base64Valid says whether s is base64 of the standard alphabet with its padding (RFC 4648, section 4).
func base64Valid(s []byte) bool {
	if len(s) == 0 || len(s)%4 != 0 {
		return false
	}
	s = bytes.TrimSuffix(bytes.TrimSuffix(s, []byte{'='}), []byte{'='})
	for _, c := range s {
		if !base64Byte[c] {
			return false
		}
	}
	return true
}

var base64Byte = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		set[c] = true
	}
	return set
}()
