package plugin

import "fmt"

// Isolation determines which calls an instance may have served before it serves another one. A guest reads the content
// of every request that is routed to it and could keep it in its memory. Isolation limits which tenants' later calls
// could read it there.
type Isolation uint8

const (
	// Shared instances serve all tenants. It is meant for plugins that ship with the gateway.
	Shared Isolation = iota
	// PerKey instances serve one gateway key and one binding. Before an instance serves another one, it is restored to
	// its state right after configuration, or replaced if that is not possible. It is the default for a plugin loaded
	// from a file.
	PerKey
	// PerCall instances are restored or replaced in the same way before each call.
	PerCall
)

// ParseIsolation parses the name of an isolation in the configuration: "shared", "key" or "call".
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

// tenant identifies on whose behalf a call is made.
type tenant struct {
	kind tenantKind
	key  string // the gateway key's name, for tenantKey and tenantShadow
}

type tenantKind uint8

const (
	// tenantInternal is the gateway itself. It is a tenant like any key: a model list must not contain data that a
	// key's requests have left in an instance.
	tenantInternal tenantKind = iota
	tenantKey
	// tenantUnknown is the tenant of a call whose key is not known. Unless instances are shared, its calls share an
	// instance with no other call.
	tenantUnknown
	// tenantShadow is the tenant of a shadow request, a copy of a key's request that no client waits for. It must not
	// affect clients: its first call never waits for an instance, and the plugin's circuit breaker neither counts nor
	// rejects its calls.
	tenantShadow
)

// allows reports whether an instance whose last call was for last may serve t without being reset.
func (i Isolation) allows(last, t tenant) bool {
	return i == Shared || i == PerKey && last == t && t.kind != tenantUnknown
}
