package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// form is an encoding in which a secret may occur in external text.
type form uint8

const (
	formPlain form = iota
	formHex
	formBase64
	formBase64URL
	formQuery
	formPath
	formJSONSlash
	formJSON
	formCount
)

// escapeJSON escapes text for a JSON string. escapeJSONSlash also escapes slashes, as some encoders do.
var escapeJSON, escapeJSONSlash = strings.NewReplacer(`\`, `\\`, `"`, `\"`), strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`)

// append appends a secret, encoded in this form.
func (f form) append(dst []byte, secret string) []byte {
	switch f {
	case formHex:
		return hex.AppendEncode(dst, []byte(secret))
	case formBase64:
		return base64.RawStdEncoding.AppendEncode(dst, []byte(secret))
	case formBase64URL:
		return base64.RawURLEncoding.AppendEncode(dst, []byte(secret))
	case formQuery:
		return append(dst, url.QueryEscape(secret)...)
	case formPath:
		return append(dst, url.PathEscape(secret)...)
	case formJSONSlash:
		return append(dst, escapeJSONSlash.Replace(secret)...)
	case formJSON:
		return append(dst, escapeJSON.Replace(secret)...)
	}
	return append(dst, secret...)
}

// isUnreserved reports whether no URL and no JSON string escapes any byte of s.
func isUnreserved(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != '~' {
			return false
		}
	}
	return true
}

// forms lists the distinct forms of one secret at a time, in memory that is reused for the next secret.
type forms struct {
	text  []byte
	found [formCount]secretForm
	count int
}

type secretForm struct {
	form form
	text []byte
}

// list returns the distinct forms of a secret. They are valid until the next call.
func (f *forms) list(secret string) []secretForm {
	if len(secret) < minSecret {
		return nil
	}
	// No form needs more than six bytes for a byte.
	if most := int(formCount) * 6 * len(secret); cap(f.text) < most {
		f.text = make([]byte, 0, most)
	}
	f.text, f.count = f.text[:0], 0
	last := formCount
	if isUnreserved(secret) {
		last = formQuery
	}
	for k := formPlain; k < last; k++ {
		from := len(f.text)
		f.text = k.append(f.text, secret)
		f.add(secretForm{k, f.text[from:len(f.text):len(f.text)]})
	}
	return f.found[:f.count]
}

// add adds a form unless its text equals that of another one.
func (f *forms) add(s secretForm) {
	for i := range f.count {
		if bytes.Equal(f.found[i].text, s.text) {
			return
		}
	}
	f.found[f.count] = s
	f.count++
}
