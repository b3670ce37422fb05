package clientapi

import "github.com/sluice-gateway/sluice/proxy/internal/jsondoc"

// EachText calls f with every text of a request that the client wrote: contents, arguments, descriptions, names and so
// on, but no roles, types and models. It is used to remove these texts from logs and errors. They are valid only during
// the call.
func EachText(d *jsondoc.Doc, f func(text []byte)) {
	var scratch []byte
	eachText(d.Root(), &scratch, f)
}

func eachText(v jsondoc.Value, scratch *[]byte, f func(text []byte)) {
	switch v.Kind() {
	case jsondoc.Object, jsondoc.Array:
		for m := v.First(); m.Exists(); m = m.Next() {
			eachText(m, scratch, f)
		}
	case jsondoc.String:
		if name := v.Name(); name.Exists() && (name.Is("role") || name.Is("type") || name.Is("model")) {
			return
		}
		if !v.Escaped() {
			f(v.Inside())
			return
		}
		*scratch = v.AppendText((*scratch)[:0])
		f(*scratch)
	}
}
