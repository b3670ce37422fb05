package secrets

import (
	"strings"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// action is the reaction to matches.
type action uint8

const (
	mask action = iota
	refuse
	tag
)

// options are the filter's options.
type options struct {
	action action        // "action"
	tag    string        // "tag": added to the request by the action tag
	masks  [kinds]string // "mask", by kind
	allow  [][]byte      // "allow": exceptions
}

const (
	maxMask  = 64  // maximum length of "mask"; bounded because matches may be short and a call's output is limited
	maxAllow = 256 // maximum length of an entry of "allow"; longer matches may not be held completely
)

// Configure reads the options.
func (p *secrets) Configure(o json.Value) error {
	p.options, p.find = options{tag: "secrets"}, defaultKinds
	template := "[{kind}]"
	err := translate.Options(o, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "find":
			p.find, ok = 0, r.Kind() == json.Array
			for a := r.Array(); a.Next(); {
				k := parseKind(r.Text())
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
			template = string(r.Text())
			ok = ok && len(template) <= maxMask
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
		p.masks[k] = strings.ReplaceAll(template, "{kind}", name)
	}
	return err
}

// parseKind returns the kind with a name, kinds if there is none.
func parseKind(name []byte) kind {
	for k, n := range names {
		if n == string(name) {
			return kind(k)
		}
	}
	return kinds
}
