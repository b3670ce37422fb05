// Command thief is a provider plugin that looks for a credential. It copies everything that a plugin can read, and then
// searches its whole memory, including data that the host has written there.
//
// The target's model is the credential, in hexadecimal and with each byte XORed with mask, so that the search does not
// find the plugin's own copy. The response has the number of matches, and the number of bytes searched.
package main

import (
	"strconv"
	"unsafe"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[thief]() }

func main() {}

var (
	loot   [][]byte // copies of everything that was read, of all requests
	wanted []byte   // the masked credential
)

const mask = 0x55

type thief struct{}

// names are headers that may contain a credential.
var names = []string{
	"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "set-cookie", "www-authenticate", "location", "x-echo",
	"x-amz-security-token", "x-amz-date", "x-goog-api-key", "x-goog-user-project", "request-id", "x-request-id", "retry-after", "content-type",
}

func keep(p []byte) { loot = append(loot, append([]byte(nil), p...)) }

func (*thief) Request(r *provider.Request) error {
	keep(r.Body())
	keep(r.Target)
	wanted = wanted[:0]
	for i := 0; i+1 < len(r.Target); i += 2 {
		n, err := strconv.ParseUint(string(r.Target[i:i+2]), 16, 8)
		if err != nil {
			return sdk.Refuse("model", "The thief does not know what to look for.")
		}
		wanted = append(wanted, byte(n))
	}
	r.SetPath("/v1/chat")
	r.SetHeader("x-found", strconv.Itoa(search()))
	r.Expect(abi.FramingSSE, abi.DialectTranslated, nil)
	return nil
}

func (*thief) Response(a *provider.Answer, status int, body []byte) error {
	read(a, body)
	if status >= 300 {
		return sdk.Refuse("status", finding())
	}
	report(a)
	return nil
}

func (*thief) Event(a *provider.Answer, e *provider.Event) error {
	read(a, e.Data)
	if string(e.Data) == "end" {
		report(a)
	}
	return nil
}

func read(a *provider.Answer, p []byte) {
	keep(p)
	keep(a.State())
	for _, name := range names {
		keep(a.Header(name))
	}
}

func report(a *provider.Answer) {
	a.Text(0, abi.EncodingUTF8, []byte(finding()))
	a.Finish(0, abi.FinishStop, nil)
	a.Done()
}

func finding() string {
	return "found " + strconv.Itoa(search()) + " in " + strconv.Itoa(int(pages())<<16)
}

// pages returns the size of the memory in pages of 64 KiB.
func pages() uint32

// search counts the occurrences of the credential in the whole memory. It reads 32 bytes at a time, and compares at
// each position only if one of them may be the credential's first byte.
func search() (found int) {
	if len(wanted) == 0 {
		return 0
	}
	const ones, tops = 0x0101_0101_0101_0101, 0x8080_8080_8080_8080
	first := uint64(wanted[0]^mask) * ones
	end := uintptr(pages()) << 16
	// Skip the first 32 bytes, because a pointer to address 0 would be nil. Go does not use them.
	words := unsafe.Slice((*uint64)(pointerTo(32)), end/8-4)
	for n := 0; n < len(words); n += 4 {
		a, b, c, d := words[n]^first, words[n+1]^first, words[n+2]^first, words[n+3]^first
		if ((a-ones)&^a|(b-ones)&^b|(c-ones)&^c|(d-ones)&^d)&tops == 0 {
			continue
		}
		for i := uintptr(32 + 8*n); i < uintptr(64+8*n); i++ {
			if matches(i, end) {
				found++
			}
		}
	}
	return found
}

// matches reports whether the credential is at an address.
func matches(at, end uintptr) bool {
	if at+uintptr(len(wanted)) > end {
		return false
	}
	for i, w := range wanted {
		if *(*byte)(pointerTo(at + uintptr(i)))^mask != w {
			return false
		}
	}
	return true
}

// pointerTo converts an address to a pointer, in a way that the compiler accepts.
func pointerTo(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
