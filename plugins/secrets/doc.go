// Package secrets is a filter plugin that finds credentials and personal data by their structure: the issuer and check
// digit of a card number, the length and check digits of a country's IBAN, the prefixes and checksums of API keys, and
// so on (kind). Depending on the option action it masks the matches, rejects the request or response, or tags the
// request.
//
// The matchers are handwritten. Each examines one position of the text and decides whether a match begins there, or
// that it needs more text to decide (verdict). The text from the first undecided position on is held.
//
// # Streams
//
// The text of a stream arrives in pieces, and the result must not depend on how it was split. Two rules ensure this.
//
// First, the context of a matcher is bounded. A match begins within a run, a sequence of letters, digits and _.+-%, and
// the preceding bytes of the run determine whether it may be a number. So the last run of a piece is held until it
// ends. A run of more than maxRun bytes can neither contain a number nor be the local part of an email address. Only
// its last maxRun+1 bytes are held, which is enough for the next call to recognize such a run.
//
// Second, the length of tokens (API keys and JSON Web Tokens) and private keys is unlimited, but the host holds at most
// 1,024 bytes. Once a match is too long to be held, its mask is written, and only its last bytes are held. The next
// call recognizes them by two properties. Their number identifies the kind of match (the rest constants). And they do
// not begin with the first bytes of a token, as all other held text of such a length does.
package secrets

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// kind is the kind of a match.
type kind uint8

const (
	card kind = iota
	iban
	ssn
	email
	phone
	ipv4
	ipv6
	apiKey
	jwt
	privateKey

	kinds         // number of kinds
	none  = kinds // rest of a match whose mask has been written
)

// names are the names of kinds in options and masks.
var names = [kinds]string{
	card: "card", iban: "iban", ssn: "ssn", email: "email", phone: "phone", ipv4: "ipv4", ipv6: "ipv6",
	apiKey: "api_key", jwt: "jwt", privateKey: "private_key",
}

// defaultKinds is the default of the option find. IP addresses are excluded, because every log contains some.
const defaultKinds = 1<<kinds - 1 - 1<<ipv4 - 1<<ipv6

// refusals are the failures for the action refuse, by kind.
var refusals [kinds]*sdk.Failure

func init() {
	for k, name := range names {
		refusals[k] = &sdk.Failure{Kind: abi.FailContentPolicy, Code: "sensitive_data", Message: "The text contains sensitive data (" + name + ")."}
	}
}
