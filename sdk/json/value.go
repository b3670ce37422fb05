package json

// Value is the bytes of one JSON value that is small enough to be scanned again at each look: settings, options, an
// error body. Its methods are safe on any bytes: what is not JSON, or has no such member, is absent.
type Value []byte

// Kind is the kind of the value, as far as its first byte says.
func (v Value) Kind() Kind { return kindAt(v, skipSpace(v, 0)) }

// Exists says whether there is a value.
func (v Value) Exists() bool { return len(v) > 0 && v.Kind() != Absent }

// Valid says whether the value is one whole JSON document.
func (v Value) Valid() bool {
	var r Reader
	r.Reset(v)
	return r.End() == nil
}

// Get is the member of an object that has this name, nil if there is none. If there are several it is the last one.
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

// Inside is what stands between the quotes of a string, still escaped, nil if the value is not a string.
func (v Value) Inside() []byte {
	var r Reader
	r.Reset(v)
	s := r.Inside()
	if r.End() != nil {
		return nil
	}
	return s
}

// Text is the text of a string, nil if the value is not a string.
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

// Is says whether the value is a string with this text.
func (v Value) Is(text string) bool { return v.Kind() == String && string(v.Text()) == text }

// Int is a whole number; see Reader.Int.
func (v Value) Int() (n int64, ok bool) {
	if v = v.trimmed(); len(v) == 0 || numberEnd(v, 0) != len(v) {
		return 0, false
	}
	return parseInt(v)
}

// Float is a number; see ParseFloat.
func (v Value) Float() (f float64, ok bool) {
	if len(v) == 0 {
		return 0, false
	}
	return ParseFloat(v.trimmed())
}

// Bool is true or false.
func (v Value) Bool() (value, ok bool) { return parseBool(v.trimmed()) }

// trimmed is the value without white space around it.
func (v Value) trimmed() Value {
	v = v[skipSpace(v, 0):]
	n := len(v)
	for n > 0 && v[n-1] <= ' ' && skipSpace(v, n-1) == n {
		n--
	}
	return v[:n]
}
