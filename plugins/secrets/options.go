package secrets

import (
	"strings"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// action is what happens to what is found.
type action uint8

const (
	mask action = iota
	refuse
	tag
)

// options are the operator's choices.
type options struct {
	action action // "action"
	tag    string // "tag": of the request, if the action is to tag it
	masks  [kinds]string
	allow  [][]byte // "allow": what is let through
}

const (
	maxMask  = 64  // bytes of the text that replaces a match, which may be short: the output of a call is bounded
	maxAllow = 256 // bytes of a literal: less than there are of a match that is not held as a whole
)

// Configure reads the options.
func (p *secrets) Configure(o json.Value) error {
	p.options, p.find = options{tag: "secrets"}, usual
	shape := "[{kind}]"
	err := translate.Options(o, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "find":
			p.find, ok = 0, r.Kind() == json.Array
			for a := r.Array(); a.Next(); {
				k := kindOf(r.Text())
				ok = ok && k < kinds
				p.find |= 1 << k
			}
		case "action":
			switch string(r.Text()) {
			case "mask":
				p.action = mask
			case "refuse":
				p.action = refuse
			case "tag":
				p.action = tag
			default:
				ok = false
			}
		case "mask":
			ok = r.Kind() == json.String
			shape = string(r.Text())
			ok = ok && len(shape) <= maxMask
		case "tag":
			p.tag = string(r.Text())
			ok = p.tag != ""
		case "allow":
			ok = r.Kind() == json.Array
			for a := r.Array(); a.Next(); {
				text := append([]byte(nil), r.Text()...)
				ok = ok && len(text) > 0 && len(text) <= maxAllow
				p.allow = append(p.allow, text)
			}
		default:
			return false, false
		}
		return true, ok
	})
	for k, name := range names {
		p.masks[k] = strings.ReplaceAll(shape, "{kind}", name)
	}
	return err
}

// kindOf returns the kind with a name, kinds if there is none.
func kindOf(name []byte) kind {
	for k, n := range names {
		if n == string(name) {
			return kind(k)
		}
	}
	return kinds
}
