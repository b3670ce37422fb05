package plugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// cacheDir keeps the compiled Go guest for the length of a test run.
var cacheDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "plugin-test-")
	if err != nil {
		panic(err)
	}
	cacheDir = filepath.Join(dir, "cache")
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func newHost(t testing.TB, o plugin.Options) *plugin.Host {
	t.Helper()
	h, err := plugin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// load loads one plugin, to be released with the test.
func load(t testing.TB, h *plugin.Host, s plugin.Spec) *plugin.Plugin {
	t.Helper()
	if s.Name == "" {
		s.Name = "test"
	}
	g, err := h.Load(t.Context(), []plugin.Spec{s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g.Plugin(s.Name)
}

func bind(t testing.TB, p *plugin.Plugin, c plugin.BindingConfig) *plugin.Binding {
	t.Helper()
	if c.Name == "" {
		c.Name = "binding"
	}
	b, err := p.Bind(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// body is an ordinary request.
const body = `{"model":"m","messages":[{"role":"user","content":"hi \u00e4"}],"temperature":0.5}`

// newAttempt returns an attempt with a streaming response. t is a *testing.T or a *rapid.T.
func newAttempt(t interface {
	Helper()
	Fatal(args ...any)
}, request string) *plugin.Attempt {
	t.Helper()
	var r openai.Request
	if err := r.Parse([]byte(request), clientapi.Limits{}); err != nil {
		t.Fatal(err)
	}
	a := &plugin.Attempt{Request: plugin.Document{Doc: &r.Doc, Body: r.Body}, Writer: openai.NewWriter(), Tenant: "alice"}
	a.Summary.Describe(&r.Facts, len(r.Body))
	a.Writer.Reset(response.Options{Stream: true, ID: "id", Model: "m", Created: 1, Aliases: a.Alias})
	return a
}

// native is a guest in Go with the functions that a test needs. It has no exports without a function, except
// sluice_configure and, unless it is a router or a filter, provider_request.
type native struct {
	host      abi.Host
	configure func(h abi.Host, settings []byte) int32
	forms     func(h abi.Host) int32
	summary   *abi.SummaryParts
	request   func(h abi.Host, summary []byte) int32
	response  func(h abi.Host, status int32, body []byte) int32
	event     func(h abi.Host, kind abi.EventKind, name, data []byte) int32
	end       func(h abi.Host) int32
	list      func(h abi.Host, cursor []byte) int32
	models    func(h abi.Host, status int32, body []byte) int32
	reads     func() int32
	choose    func(h abi.Host, input []byte) int32

	filterParts   *abi.FilterParts
	filterRequest func(h abi.Host, input []byte) int32
	filterText    func(h abi.Host, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32
}

func (n *native) Has(export string) bool {
	switch export {
	case abi.ExportConfigure:
		return true
	case abi.ExportForms:
		return n.forms != nil
	case abi.ExportRequest:
		return n.choose == nil && n.filterText == nil
	case abi.ExportResponse:
		return n.response != nil
	case abi.ExportEvent:
		return n.event != nil
	case abi.ExportEnd:
		return n.end != nil
	case abi.ExportList:
		return n.list != nil
	case abi.ExportModels:
		return n.models != nil
	case abi.ExportSummary:
		return n.summary != nil
	case abi.ExportReads:
		return n.reads != nil
	case abi.ExportChoose:
		return n.choose != nil
	case abi.ExportFilterReads:
		return n.filterParts != nil
	case abi.ExportFilterRequest:
		return n.filterRequest != nil
	case abi.ExportFilterText:
		return n.filterText != nil
	}
	return false
}

func (n *native) Configure(_ int32, settings []byte) int32 {
	if n.configure == nil {
		return 0
	}
	return n.configure(n.host, settings)
}
func (n *native) Request(_ int32, in []byte) int32 {
	if n.request == nil {
		return 1
	}
	return n.request(n.host, in)
}
func (n *native) Response(_, status int32, in []byte) int32 { return n.response(n.host, status, in) }
func (n *native) Event(_ int32, kind abi.EventKind, name, data []byte) int32 {
	return n.event(n.host, kind, name, data)
}
func (n *native) Forms(int32) int32                    { return n.forms(n.host) }
func (n *native) SummaryParts(int32) int32             { return int32(*n.summary) }
func (n *native) End(int32) int32                      { return n.end(n.host) }
func (n *native) List(_ int32, cursor []byte) int32    { return n.list(n.host, cursor) }
func (n *native) Models(_, s int32, body []byte) int32 { return n.models(n.host, s, body) }
func (n *native) Reads(int32) int32                    { return n.reads() }
func (n *native) Choose(_ int32, input []byte) int32   { return n.choose(n.host, input) }
func (n *native) FilterParts(int32) int32              { return int32(*n.filterParts) }
func (n *native) FilterRequest(_ int32, input []byte) int32 {
	return n.filterRequest(n.host, input)
}
func (n *native) FilterText(_ int32, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32 {
	return n.filterText(n.host, what, choice, flags, held, text)
}

// loadNative loads a plugin whose instances are copies of n.
func loadNative(t testing.TB, h *plugin.Host, n native) *plugin.Plugin {
	t.Helper()
	g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
		copied := n
		copied.host = host
		return &copied
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g.Plugin("native")
}

// bindNative returns a binding of a native plugin on a new host.
func bindNative(t testing.TB, n native, c plugin.BindingConfig) *plugin.Binding {
	t.Helper()
	return bind(t, loadNative(t, newHost(t, plugin.Options{}), n), c)
}

// newFixedClockHost returns a host whose clock stands still, so that no circuit opens however often a plugin fails.
func newFixedClockHost(t testing.TB) *plugin.Host {
	t.Helper()
	return newHost(t, plugin.Options{Now: func() time.Time { return unixMilli(0) }})
}

// wantCallError fails the test unless err is a CallError of this kind.
func wantCallError(t testing.TB, err error, kind plugin.CallErrorKind) *plugin.CallError {
	t.Helper()
	var e *plugin.CallError
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("error %v, want one of kind %q", err, kind)
	}
	return e
}

func output(a *plugin.Attempt) string { return string(a.Writer.Output()) }

func unixMilli(ms int64) time.Time { return time.UnixMilli(ms) }

func wantAnyCallError(t testing.TB, err error) {
	t.Helper()
	var e *plugin.CallError
	if !errors.As(err, &e) {
		t.Errorf("error %v, want a CallError", err)
	}
}
