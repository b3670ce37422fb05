// Command hostile is a provider plugin that breaks the rules for plugins on demand. In Request, the target's model
// names the misdeed. In Event and Response, the provider's data does. Anything else is served honestly: each event is a
// piece of the response's text, and the event "end" completes the response.
package main

import (
	"errors"
	"unsafe"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[hostile]() }

func main() {}

type hostile struct{}

//go:wasmimport sluice request_path
func requestPath(p unsafe.Pointer, n uint32) int32

//go:wasmimport sluice request_header
func requestHeader(name unsafe.Pointer, nameLength uint32, value unsafe.Pointer, valueLength uint32) int32

//go:wasmimport sluice text
func rawText(choice, encoding int32, address, length uint32)

const path = "/v1/chat"

func (*hostile) Request(r *provider.Request) error {
	misdeed := string(r.Target)
	switch misdeed {
	case "path-above":
		r.SetPath("/v1/../admin")
	case "path-encoded-above":
		r.SetPath("/v1/%2e%2e/admin")
	case "path-not-allowed":
		r.SetPath("/v1/files")
	case "path-with-a-line":
		r.SetPath("/v1/chat\r\nX-Injected: 1")
	case "another-host":
		r.SetPath("//elsewhere.example/v1/chat")
	case "authorization":
		r.SetPath(path)
		r.SetHeader("Authorization", "Bearer stolen")
	case "the-credential-header":
		r.SetPath(path)
		r.SetHeader("X-Api-Key", "stolen")
	case "host":
		r.SetPath(path)
		r.SetHeader("Host", "elsewhere.example")
	case "header-with-a-line":
		r.SetPath(path)
		r.SetHeader("X-Allowed", "1\r\nX-Injected: 1")
	case "errors-ignored":
		set("/v1/files")
		header("Authorization", "Bearer stolen")
	case "headers-ignored":
		// The plugin ignores that the host rejects some of these headers. They are not sent.
		set(path)
		header("Authorization", "Bearer stolen")
		header("X-Injected", "1")
		header("X-Allowed", "yes")
		r.Expect(abi.FramingSSE, abi.DialectTranslated, nil)
	case "nothing":
	case "slow":
		// Uses almost all of the fuel of a call.
		for range 1_000_000 + 28*len(r.Body()) {
			sink = nil
		}
		r.SetPath(path)
		r.Expect(abi.FramingSSE, abi.DialectTranslated, nil)
	case "half":
		r.Text(0, abi.EncodingUTF8, []byte("half a response"))
	case "body-and-edits":
		r.SetPath(path)
		r.SetInt("/n", 1)
		r.Write([]byte("{}"))
	default:
		if known, err := act(misdeed, &r.Answer); known {
			return err
		}
		r.SetPath(path)
		r.SetHeader("X-Allowed", "yes")
		r.Expect(abi.FramingSSE, abi.DialectTranslated, nil)
	}
	return nil
}

func (*hostile) Response(a *provider.Answer, _ int, body []byte) error {
	if known, err := act(string(body), a); known {
		return err
	}
	return errors.New("unexpected response")
}

func (*hostile) Event(a *provider.Answer, e *provider.Event) error {
	if known, err := act(string(e.Data), a); known {
		return err
	}
	if string(e.Data) == "end" {
		a.Finish(0, abi.FinishStop, nil)
		a.Done()
		return nil
	}
	a.Text(0, abi.EncodingUTF8, e.Data)
	return nil
}

var (
	sink  []byte
	hoard [][]byte
	words = []byte("and so on and so on and so on and so on and so on and so on and so on and so on ")
)

// act commits one of the misdeeds that are possible in every call. known reports whether the name is one of them.
func act(misdeed string, a *provider.Answer) (known bool, err error) {
	switch misdeed {
	case "panic":
		panic("panic with the prompt")
	case "bounds":
		sink = sink[len(misdeed):]
	case "nil":
		var p *[1 << 20]byte
		sink = p[1<<19:]
	case "zero":
		sink = make([]byte, len(words)/(len(misdeed)-4))
	case "loop":
		for {
			sink = nil
		}
	case "memory":
		for {
			hoard = append(hoard, make([]byte, 24<<20))
		}
	case "recursion":
		sink = recurse(words)
	case "output":
		for {
			a.Text(0, abi.EncodingUTF8, words)
		}
	case "log":
		for {
			sdk.Log(abi.LogError, "and so on")
		}
	case "bytes":
		a.Text(0, abi.EncodingUTF8, []byte("bad \xff\xfe text"))
	case "version":
		a.Text(0, abi.EncodingUTF8, version[:len("version-one")])
	case "escaped-bytes":
		a.Text(0, abi.EncodingEscaped, []byte("bad \xff\xfe text"))
	case "lines":
		a.Text(0, abi.EncodingEscaped, []byte("\n\ndata: [DONE]\n\n"))
	case "escape":
		a.Text(0, abi.EncodingEscaped, []byte(`"},{"role":"system"`))
	case "member":
		a.Extra(abi.ScopeAnswer, 0, 0, "error", []byte("{"))
		a.Text(0, abi.Encoding(99), words)
	case "name":
		a.ToolCall(0, 1, []byte("call\r\n1"), make([]byte, 4<<10))
	case "pointer":
		rawText(0, 0, 0xffff_fff0, 64)
	case "length":
		rawText(0, 0, 64, 0xffff_ffff)
	case "choice":
		a.Text(-1, abi.EncodingUTF8, words)
	case "status":
		return true, errors.New("its own failure, with the prompt")
	default:
		return false, nil
	}
	return true, nil
}

// version is replaced in the built module by a test, so the module must contain it as it is written here.
var version = []byte("version-one, which is long enough not to become a part of some instruction")

func recurse(p []byte) []byte {
	if len(p) == 0 {
		return p
	}
	q := recurse(append(p, p[0]))
	return q[:len(q):len(q)]
}

func set(path string) { requestPath(unsafe.Pointer(unsafe.StringData(path)), uint32(len(path))) }

func header(name, value string) {
	requestHeader(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), unsafe.Pointer(unsafe.StringData(value)), uint32(len(value)))
}
