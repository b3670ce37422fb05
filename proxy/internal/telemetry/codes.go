package telemetry

import "github.com/sluice-gateway/sluice/proxy/internal/apierror"

// Code returns the value of the label code for an error code. A code that a provider or a plugin invented becomes
// Other, because it could otherwise create any number of series. code may also be the type of an error whose code is
// null.
func Code(code string) string {
	if code == "" || apierror.IsCode(code) || apierror.IsKind(code) {
		return code
	}
	return Other
}

// codeDisconnected is the code of a request whose client disconnected before its response was complete.
const codeDisconnected = "client_closed_request"

// classes are the values of the label status.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

func statusClass(status int) uint8 {
	return uint8(min(max(status/100-1, 0), len(classes)-1))
}

// Refusal is the reason a request was rejected for its API key.
type Refusal uint8

// The refusals.
const (
	RefusedMissing     Refusal = iota // no key
	RefusedTwice                      // more than one key
	RefusedMalformed                  // not in the form of a key
	RefusedUnknown                    // no such key
	RefusedDisabled                   // the key is disabled
	RefusedExpired                    // the key has expired
	RefusedNotYetValid                // the key is not valid yet
	RefusedModel                      // a valid key that may not use the model
	RefusedToken                      // not a valid token of a configured issuer
	RefusedIdentity                   // a valid token that no entry of [[identities]] accepts
	RefusedUnavailable                // the keys of the token's issuer cannot be fetched
	refusals           = iota
)

var refusalNames = [refusals]string{
	RefusedMissing: "missing", RefusedTwice: "duplicate", RefusedMalformed: "malformed", RefusedUnknown: "unknown",
	RefusedDisabled: "disabled", RefusedExpired: "expired", RefusedNotYetValid: "not_yet_valid", RefusedModel: "model",
	RefusedToken: "token", RefusedIdentity: "identity", RefusedUnavailable: "identity_unavailable",
}

// Shed is the reason a valid request was rejected: the exhausted resource, or the shutdown.
type Shed uint8

// The reasons.
const (
	ShedConnections Shed = iota // client connections
	ShedRequests                // requests in flight
	ShedBodies                  // memory of large bodies
	ShedPlugins                 // plugin instances
	ShedUpstream                // connections to a provider
	ShedDraining                // the gateway is shutting down
	sheds           = iota
)

var shedNames = [sheds]string{
	ShedConnections: "connections", ShedRequests: "requests", ShedBodies: "bodies",
	ShedPlugins: "plugins", ShedUpstream: "upstream", ShedDraining: "draining",
}

// RouterChoice is the outcome of a call of a router plugin.
type RouterChoice uint8

// The outcomes.
const (
	RouterOrdered   RouterChoice = iota // it named targets
	RouterNamedNone                     // it named none
	RouterFailed                        // it failed
	RouterRejected                      // it rejected the request
	routerChoices   = iota
)

var routerChoiceNames = [routerChoices]string{RouterOrdered: "ordered", RouterNamedNone: "named_none", RouterFailed: "failed", RouterRejected: "rejected"}
