package plugin

import (
	"errors"
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
	exportForms
	exportSummary
	exportRequest
	exportResponse
	exportEvent
	exportEnd
	exportList
	exportModels
	exportReads
	exportChoose
	exportFilterReads
	exportFilterRequest
	exportFilterText

	exportCount
)

// exports describes each export. The columns are those of exportInfo.
var exports = [exportCount]exportInfo{
	exportConfigure: {abi.ExportConfigure, 2, abi.PhaseConfigure, true, false},
	exportForms:     {abi.ExportForms, 1, abi.PhaseConfigure, true, false},
	exportSummary:   {abi.ExportSummary, 1, abi.PhaseConfigure, true, false},
	exportRequest:   {abi.ExportRequest, 2, abi.PhaseRequest, true, true},
	exportResponse:  {abi.ExportResponse, 3, abi.PhaseAnswer, true, false},
	exportEvent:     {abi.ExportEvent, 4, abi.PhaseAnswer, false, false},
	exportEnd:       {abi.ExportEnd, 1, abi.PhaseAnswer, false, false},
	exportList:      {abi.ExportList, 2, abi.PhaseList, true, false},
	exportModels:    {abi.ExportModels, 3, abi.PhaseModels, true, false},
	exportReads:     {abi.ExportReads, 1, abi.PhaseConfigure, true, false},
	exportChoose:    {abi.ExportChoose, 2, abi.PhaseRouter, false, true},

	exportFilterReads:   {abi.ExportFilterReads, 1, abi.PhaseConfigure, true, false},
	exportFilterRequest: {abi.ExportFilterRequest, 2, abi.PhaseFilter, false, false},
	exportFilterText:    {abi.ExportFilterText, 6, abi.PhaseText, false, false},
}

type exportInfo struct {
	name   string
	params int       // all i32, as is the result
	phase  abi.Phase // decides which imports are allowed
	whole  bool      // gets a whole body, and needs the semaphore Host.whole
	begins bool      // is the first call of an attempt, which the circuit breaker may reject
}

func (e export) String() string { return exports[e].name }

// signatureI32 returns the signature of n parameters and one result, all i32.
func signatureI32(n int) engine.Signature {
	return engine.Signature{Params: slices.Repeat([]engine.ValueType{engine.I32}, n), Results: []engine.ValueType{engine.I32}}
}

// exportSet is the set of exports that a plugin has, by index.
type exportSet [exportCount]bool

func (s exportSet) provider() bool { return s[exportRequest] }
func (s exportSet) router() bool   { return s[exportChoose] }

func (s exportSet) filter() bool { return s[exportFilterText] }

// kindOf returns the kind of plugin that an export belongs to, 0 for an export of every plugin.
func kindOf(e export) abi.PluginKind {
	switch e {
	case exportConfigure:
		return 0
	case exportReads, exportChoose:
		return abi.PluginRouter
	case exportFilterReads, exportFilterRequest, exportFilterText:
		return abi.PluginFilter
	}
	return abi.PluginProvider
}

// restrict returns the exports in s that belong to a plugin of the given kind.
func (s exportSet) restrict(kind abi.PluginKind) (exportSet, error) {
	switch {
	case kind < 0 || kind&(abi.PluginProvider|abi.PluginRouter|abi.PluginFilter) == 0:
		return s, fmt.Errorf("%s returned %d, not a kind of plugin that this gateway supports", abi.ExportPlugin, kind)
	case kind&abi.PluginProvider != 0 && !s.provider():
		return s, fmt.Errorf("%s declares a provider, but the module does not export %s", abi.ExportPlugin, abi.ExportRequest)
	case kind&abi.PluginRouter != 0 && !s.router():
		return s, fmt.Errorf("%s declares a router, but the module does not export %s", abi.ExportPlugin, abi.ExportChoose)
	case kind&abi.PluginFilter != 0 && !s.filter():
		return s, fmt.Errorf("%s declares a filter, but the module does not export %s", abi.ExportPlugin, abi.ExportFilterText)
	}
	for e := range s {
		if k := kindOf(export(e)); k != 0 {
			s[e] = s[e] && kind&k != 0
		}
	}
	return s, nil
}

// check rejects a plugin that is neither a provider nor a router nor a filter.
func (s exportSet) check() error {
	if !s.provider() && !s.router() && !s.filter() {
		return fmt.Errorf("neither a provider nor a router nor a filter: it exports none of %s, %s and %s", abi.ExportRequest, abi.ExportChoose, abi.ExportFilterText)
	}
	return nil
}

// versionPrefix is the name of the version export without the number.
var versionPrefix = strings.TrimSuffix(abi.ExportVersion, fmt.Sprint(abi.Major))

// checkExports returns the ABI's exports that a module has, or an error that lists all that are missing or have the
// wrong type.
func checkExports(have map[string]engine.Signature) (set exportSet, err error) {
	var wrong []string
	has := func(name string, want engine.Signature, required bool) bool {
		s, ok := have[name]
		switch {
		case !ok && required:
			wrong = append(wrong, fmt.Sprintf("missing export %s %v", name, want))
		case ok && !s.Equal(want):
			wrong = append(wrong, fmt.Sprintf("export %s is %v, want %v", name, s, want))
		}
		return ok
	}
	if _, ok := have[abi.ExportVersion]; !ok {
		if !anyExport(have) {
			return set, errors.New("exports none of a plugin's functions, such as " + abi.ExportVersion + " and " + abi.ExportRequest +
				": with the Go SDK, call provider.Register or router.Register in func init, and build with -buildmode=c-shared")
		}
		if other := otherVersion(have); other != "" {
			return set, fmt.Errorf("built for %s, but this gateway supports %s: build it with the SDK of this version", strings.TrimPrefix(other, "sluice_"), strings.TrimPrefix(abi.ExportVersion, "sluice_"))
		}
	}
	has(abi.ExportVersion, signatureI32(0), true)
	has(abi.ExportBuffer, signatureI32(1), true)
	has(abi.ExportPlugin, signatureI32(1), false)
	has(abi.ExportCollect, engine.Signature{}, false)
	for e := range exports {
		set[e] = has(exports[e].name, signatureI32(exports[e].params), export(e) == exportConfigure)
	}
	if err := set.check(); err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 {
		return set, fmt.Errorf("not a plugin for this gateway: %s", strings.Join(wrong, "; "))
	}
	return set, nil
}

// anyExport reports whether a module exports any function of the ABI.
func anyExport(have map[string]engine.Signature) bool {
	for name := range have {
		if strings.HasPrefix(name, "sluice_") || slices.ContainsFunc(exports[:], func(e exportInfo) bool { return e.name == name }) {
			return true
		}
	}
	return false
}

// otherVersion returns the name of the version export of another major version, "" if there is none.
func otherVersion(have map[string]engine.Signature) string {
	other := ""
	for name := range have {
		if strings.HasPrefix(name, versionPrefix) && (other == "" || name < other) {
			other = name
		}
	}
	return other
}
