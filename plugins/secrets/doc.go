// Package secrets is the filter plugin that finds credentials and personal data by their structure: the ranges and check digit of a
// card number, the country's length and check digits of an IBAN, the prefixes and the checksum of API keys, and so on (kind). What
// it finds it masks, or it refuses the request or the response, or tags the request.
//
// All matchers are written by hand. Each looks at one position of the text and says that a match begins there, that none does, or
// that it takes more text to know (verdict). The text from the first position of which the last is true is held.
//
// # Cuts
//
// A stream's text comes in pieces, and the result must be that for the whole text however it was cut. Two things make it so.
//
// First, what a matcher looks at is bounded: a match begins within a run, a sequence of letters, digits and _.+-%, and what stands
// to the left of it in the same run decides whether it may be a number. So the last run of a piece is held until it has ended. Of a
// run of more than maxRun bytes, which no longer can hold a number or be the local part of an address, the last maxRun+1 bytes
// are held: enough to see again that it is one of those.
//
// Second, a token (an API key, a JSON Web Token) and a private key have no largest length, and the host holds 1,024 bytes at most.
// Of one that is longer than that the mask is written, and its last bytes are held while the rest passes. In the next call they
// are known by their number, which says what goes on (the rest constants), and by not beginning with the first bytes of any token:
// all other text that is held and has that length does.
package secrets

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// kind is what a match is.
type kind uint8

// The kinds, in the order of their names.
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

	kinds
	none = kinds // of the rest of a match whose mask is written
)

// names are the kinds' names in options and masks.
var names = [kinds]string{
	card: "card", iban: "iban", ssn: "ssn", email: "email", phone: "phone", ipv4: "ipv4", ipv6: "ipv6",
	apiKey: "api_key", jwt: "jwt", privateKey: "private_key",
}

// usual are the kinds that are found unless the options say otherwise: addresses of machines are in every log.
const usual = 1<<kinds - 1 - 1<<ipv4 - 1<<ipv6

// refusals are what the client reads, by kind.
var refusals [kinds]*sdk.Failure

func init() {
	for k, name := range names {
		refusals[k] = &sdk.Failure{Kind: abi.FailContentPolicy, Code: "sensitive_data", Message: "The text contains sensitive data (" + name + ")."}
	}
}
