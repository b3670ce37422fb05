package plugin

import "fmt"

// Isolation says what an instance may have served before it serves a call. A guest sees the content of whoever is
// routed to it and could keep it; isolation bounds to whom it could hand it on.
type Isolation uint8

const (
	// Shared instances serve everyone: for plugins that ship with the gateway.
	Shared Isolation = iota
	// PerKey instances serve one gateway key, and one binding. Before another is served, the instance is put back to
	// what it was when it had just been configured, or replaced by a new one where that cannot be done. It is the
	// default of a plugin that comes from a file.
	PerKey
	// PerCall instances serve one call, and are then put back likewise.
	PerCall
)

// ParseIsolation returns the isolation of a name in the configuration: "shared", "key" or "call".
func ParseIsolation(s string) (Isolation, error) {
	for i, n := range isolationNames {
		if s == n {
			return Isolation(i), nil
		}
	}
	return Shared, fmt.Errorf("invalid isolation %q: want shared, key or call", s)
}

var isolationNames = [...]string{Shared: "shared", PerKey: "key", PerCall: "call"}

// String returns the name in the configuration.
func (i Isolation) String() string {
	if int(i) < len(isolationNames) {
		return isolationNames[i]
	}
	return "unknown"
}

// tenant is who a call is made for.
type tenant struct {
	kind tenantKind
	key  string // the gateway key's name, where the kind is tenantKey
}

type tenantKind uint8

const (
	// tenantInternal itself is a tenant like any gateway key: a model list must not carry what a key's requests left in an
	// instance.
	tenantInternal tenantKind = iota
	tenantKey
	// tenantUnknown is the tenant of a call whose key is not known. Its calls share an instance with no other call unless
	// instances are shared.
	tenantUnknown
)

// may reports whether an instance that has served last may serve t as it is.
func (i Isolation) may(last, t tenant) bool {
	return i == Shared || i == PerKey && last == t && t.kind != tenantUnknown
}
