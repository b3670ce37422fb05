package clientapi

import "github.com/sluice-gateway/sluice/proxy/internal/jsondoc"

// FreeName reports whether the value of a member with this name, an object, has names of the client's own.
func FreeName(name string) bool {
	var d jsondoc.Doc
	return d.Parse([]byte(`{"`+name+`":[]}`), jsondoc.Limits{}) == nil && freeNames(d.Root().First())
}

// KnownNames is knownNames.
const KnownNames = knownNames
