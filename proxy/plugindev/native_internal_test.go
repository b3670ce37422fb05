package plugindev

import (
	"reflect"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestNativeServesEveryImport checks that hostMethods contains all methods of abi.Host.
func TestNativeServesEveryImport(t *testing.T) {
	host := reflect.TypeFor[abi.Host]()
	if len(hostMethods) != host.NumMethod() {
		t.Errorf("got %d methods, want %d", len(hostMethods), host.NumMethod())
	}
	for m := range host.Methods() {
		f := reflect.TypeOf(hostMethods[m.Name])
		if f == nil || f.NumIn() != m.Type.NumIn()+1 || f.In(0) != host {
			t.Errorf("%s: got %v, want the method of abi.Host", m.Name, f)
		}
	}
}
