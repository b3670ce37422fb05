package translate

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// Choice is an option that is on, off, or unset.
type Choice uint8

// The choices.
const (
	Unset Choice = iota
	No
	Yes
)

// Or returns whether the option is on, or the default if it is unset.
func (c Choice) Or(byDefault bool) bool {
	if c == Unset {
		return byDefault
	}
	return c == Yes
}

// Choose converts the results of a reader of a boolean option to a Choice.
func Choose(on, ok bool) (Choice, bool) {
	if on {
		return Yes, ok
	}
	return No, ok
}

// OneOf maps the text yes to true and no to false; ok is false for any other text.
func OneOf(text []byte, yes, no string) (value, ok bool) {
	switch string(text) {
	case yes:
		return true, true
	case no:
		return false, true
	}
	return false, false
}

// Options calls read for each option in an object. known is false if the plugin has no such option, ok is false if the
// value is invalid.
func Options(options json.Value, read func(name string, r *json.Reader) (known, ok bool)) error {
	var r json.Reader
	r.Reset(options)
	for o := r.Object(); o.Next(); {
		name := string(r.Name())
		switch known, ok := read(name, &r); {
		case !known:
			return errors.New("unknown option " + name)
		case !ok:
			return errors.New("option " + name + " has an invalid value")
		}
	}
	return r.End()
}
