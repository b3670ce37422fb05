package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// export is one of the guest's functions that a Binding calls.
type export uint8

const (
	exportConfigure export = iota
	exportRequest
	exportResponse
	exportEvent
	exportEnd
	exportList
	exportModels
	exportChoose

	exportCount
)

// exports says of each its name, the phase that it runs in, whether it may take long (see gate), and whether it is the
// first of an attempt (see breaker).
var exports = [exportCount]struct {
	name   string
	params int
	phase  abi.Phase
	whole  bool
	begins bool
}{
	exportConfigure: {abi.ExportConfigure, 2, abi.PhaseConfigure, true, false},
	exportRequest:   {abi.ExportRequest, 2, abi.PhaseRequest, true, true},
	exportResponse:  {abi.ExportResponse, 3, abi.PhaseAnswer, true, false},
	exportEvent:     {abi.ExportEvent, 4, abi.PhaseAnswer, false, false},
	exportEnd:       {abi.ExportEnd, 1, abi.PhaseAnswer, false, false},
	exportList:      {abi.ExportList, 2, abi.PhaseList, true, false},
	exportModels:    {abi.ExportModels, 3, abi.PhaseModels, true, false},
	exportChoose:    {abi.ExportChoose, 2, abi.PhaseRouter, false, true},
}

func (e export) String() string { return exports[e].name }

// signature is one of n parameters of type i32 and a result of the same.
func signature(params int) engine.Signature {
	return engine.Signature{Params: slices.Repeat([]engine.ValueType{engine.I32}, params), Results: []engine.ValueType{engine.I32}}
}

// exportSet says which of the exports a plugin has.
type exportSet [exportCount]bool

func (s exportSet) provider() bool { return s[exportRequest] }
func (s exportSet) router() bool   { return s[exportChoose] }

// of is what of a module's exports belongs to a plugin of that kind.
func (s exportSet) of(kind abi.PluginKind) (exportSet, error) {
	provider, router := kind&abi.PluginProvider != 0, kind&abi.PluginRouter != 0
	switch {
	case kind&^(abi.PluginProvider|abi.PluginRouter) != 0:
		return s, fmt.Errorf("%s answers %d, which is no kind of plugin", abi.ExportPlugin, kind)
	case provider && !s.provider():
		return s, fmt.Errorf("%s says that it is a provider, and the module does not export %s", abi.ExportPlugin, abi.ExportRequest)
	case router && !s.router():
		return s, fmt.Errorf("%s says that it is a router, and the module does not export %s", abi.ExportPlugin, abi.ExportChoose)
	}
	for e := range s {
		if export(e) != exportConfigure {
			s[e] = s[e] && (export(e) == exportChoose && router || export(e) != exportChoose && provider)
		}
	}
	return s, nil
}

// check refuses what is neither a provider nor a router.
func (s exportSet) check() error {
	if !s.provider() && !s.router() {
		return fmt.Errorf("neither a provider nor a router: it exports neither %s nor %s", abi.ExportRequest, abi.ExportChoose)
	}
	return nil
}

// versionPrefix is the name of the version's export without the major version.
var versionPrefix = strings.TrimSuffix(abi.ExportVersion, fmt.Sprint(abi.Major))

// checkExports finds out what a module is, or says what of the contract is missing or mistyped, all of it.
func checkExports(have map[string]engine.Signature) (set exportSet, err error) {
	var wrong []string
	has := func(name string, want engine.Signature, required bool) bool {
		s, ok := have[name]
		switch {
		case !ok && required:
			wrong = append(wrong, fmt.Sprintf("it does not export %s %v", name, want))
		case ok && !s.Equal(want):
			wrong = append(wrong, fmt.Sprintf("its export %s is %v, it should be %v", name, s, want))
		}
		return ok
	}
	if _, ok := have[abi.ExportVersion]; !ok {
		if other := otherVersion(have); other != "" {
			return set, fmt.Errorf("it speaks %s, and this gateway %s", strings.TrimPrefix(other, "sluice_"), strings.TrimPrefix(abi.ExportVersion, "sluice_"))
		}
	}
	has(abi.ExportVersion, signature(0), true)
	has(abi.ExportBuffer, signature(1), true)
	has(abi.ExportPlugin, signature(1), false)
	has(abi.ExportCollect, engine.Signature{}, false)
	for e := range exports {
		set[e] = has(exports[e].name, signature(exports[e].params), export(e) == exportConfigure)
	}
	if err := set.check(); err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 {
		return set, fmt.Errorf("not a plugin for this gateway: %s", strings.Join(wrong, "; "))
	}
	return set, nil
}

// otherVersion returns the version's export of a plugin that speaks another major version, "" if there is none.
func otherVersion(have map[string]engine.Signature) string {
	other := ""
	for name := range have {
		if strings.HasPrefix(name, versionPrefix) && (other == "" || name < other) {
			other = name
		}
	}
	return other
}
