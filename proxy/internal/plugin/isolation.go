package plugin

import "fmt"

// Isolation says what an instance may have served before it serves a call. A guest reads the content of every request
// that is routed to it and could keep it; isolation limits whom it could pass it on to.
type Isolation uint8

const (
	// Shared instances serve all tenants: for plugins that ship with the gateway.
	Shared Isolation = iota
	// PerKey instances serve one gateway key, and one binding. Before they serve another, they are restored to their state
	// after configuration, or replaced if that is not possible. It is the default of a plugin loaded from a file.
	PerKey
	// PerCall instances serve one call, and are then restored likewise.
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

// tenant is on whose behalf a call is made.
type tenant struct {
	kind tenantKind
	key  string // the gateway key's name, where the kind is tenantKey or tenantShadow
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
	// tenantShadow is the tenant of a copy of a key's request that no client waits for. Its first call waits for no instance, and none
	// of its calls counts for the plugin's circuit breaker, nor is it stopped by that: clients notice nothing of what becomes of it.
	tenantShadow
)

// allows reports whether an instance whose last call was for last may serve t as it is.
func (i Isolation) allows(last, t tenant) bool {
	return i == Shared || i == PerKey && last == t && t.kind != tenantUnknown
}
