package translate

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// Choice is an option that is on, off, or left to a default.
type Choice uint8

// The choices.
const (
	Unset Choice = iota
	No
	Yes
)

// Or returns the choice, or the default if unset.
func (c Choice) Or(standard bool) bool {
	if c == Unset {
		return standard
	}
	return c == Yes
}

// Choose converts the results of an option's reader to a Choice.
func Choose(on, ok bool) (Choice, bool) {
	if on {
		return Yes, ok
	}
	return No, ok
}

// OneOf returns true for the text yes and false for no; ok is false for any other text.
func OneOf(text []byte, yes, no string) (value, ok bool) {
	switch string(text) {
	case yes:
		return true, true
	case no:
		return false, true
	}
	return false, false
}

// Options calls read for each option of an object; known is false for an option that the plugin does not have, ok for an
// invalid value.
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
