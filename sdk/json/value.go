package json

// Value is a small JSON document, such as settings, options or an error body. Each method scans it again. The methods
// are safe for any bytes: invalid JSON counts as absent.
type Value []byte

// Kind returns the kind of the value, judging by its first byte.
func (v Value) Kind() Kind { return kindAt(v, skipSpace(v, 0)) }

// Exists reports whether there is a value.
func (v Value) Exists() bool { return len(v) > 0 && v.Kind() != Absent }

// Valid reports whether the value is a complete JSON document.
func (v Value) Valid() bool {
	var r Reader
	r.Reset(v)
	return r.End() == nil
}

// Get returns the member with this name, or nil if there is none. If there are several, the last one wins.
func (v Value) Get(name string) Value {
	var (
		r     Reader
		found []byte
	)
	r.Reset(v)
	for o := r.Object(); o.Next(); {
		if string(r.Name()) == name {
			found = r.Raw()
		}
	}
	if r.Failed() {
		return nil
	}
	return found
}

// Inside returns the bytes between the quotes of a string, still escaped, or nil if the value is not a string.
func (v Value) Inside() []byte {
	var r Reader
	r.Reset(v)
	s := r.Inside()
	if r.End() != nil {
		return nil
	}
	return s
}

// Text returns the text of a string, or nil if the value is not a string.
func (v Value) Text() []byte {
	if len(v) == 0 {
		return nil
	}
	var r Reader
	r.Reset(v)
	s := r.Text()
	if r.End() != nil {
		return nil
	}
	return s
}

// Is reports whether the value is a string with this text.
func (v Value) Is(text string) bool { return v.Kind() == String && string(v.Text()) == text }

// Int returns an integer; see Reader.Int.
func (v Value) Int() (n int64, ok bool) {
	if v = v.trimmed(); len(v) == 0 || numberEnd(v, 0) != len(v) {
		return 0, false
	}
	return parseInt(v)
}

// Float returns a number; see ParseFloat.
func (v Value) Float() (f float64, ok bool) {
	if len(v) == 0 {
		return 0, false
	}
	return ParseFloat(v.trimmed())
}

// Bool returns a boolean; ok is false if the value is not one.
func (v Value) Bool() (value, ok bool) { return parseBool(v.trimmed()) }

// trimmed returns the value without surrounding white space.
func (v Value) trimmed() Value {
	v = v[skipSpace(v, 0):]
	n := len(v)
	for n > 0 && v[n-1] <= ' ' && skipSpace(v, n-1) == n {
		n--
	}
	return v[:n]
}
