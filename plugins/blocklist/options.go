package blocklist

import (
	"errors"
	"unicode/utf8"

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
	action action // "action"
	mask   string // "mask": replaces a phrase
	tag    string // "tag": added to the request by the action tag
}

const (
	maxMask    = 64       // maximum length of the mask; bounded because a call's output is limited
	maxPhrase  = 200      // maximum number of runes in a phrase; bounded because the host must be able to hold it
	maxPhrases = 32 << 10 // maximum number of bytes in all phrases
)

var errNoPhrases = errors.New("option phrases missing")

// Configure reads the options.
func (p *blocklist) Configure(o json.Value) error {
	p.options = options{mask: "[blocked]", tag: "blocklist"}
	p.words = true
	var phrases [][]byte
	size := 0
	err := translate.Options(o, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "phrases":
			ok = r.Kind() == json.Array
			for a := r.Array(); a.Next(); {
				phrase := append([]byte(nil), r.Text()...)
				runes := utf8.RuneCount(phrase)
				ok = ok && runes > 0 && runes <= maxPhrase
				p.longest = max(p.longest, runes)
				size += len(phrase)
				phrases = append(phrases, phrase)
			}
			ok = ok && size <= maxPhrases
		case "whole_words":
			p.words, ok = r.Bool()
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
			p.mask = string(r.Text())
			ok = ok && len(p.mask) <= maxMask
		case "tag":
			p.tag = string(r.Text())
			ok = p.tag != ""
		default:
			return false, false
		}
		return true, ok
	})
	if err == nil && len(phrases) == 0 {
		err = errNoPhrases
	}
	if err != nil {
		return err
	}
	p.phrases = newAutomaton(phrases)
	return nil
}
