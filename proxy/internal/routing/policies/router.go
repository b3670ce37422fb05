package policies

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// costsMinor is the minor version of the ABI from which on the document has expected costs.
	costsMinor = 6
	// measuredMinor is the minor version from which on the compact input has measurements. Older routers that ask for
	// everything must not receive them.
	measuredMinor = 7
)

// chooser adapts a router plugin to routing.Chooser.
type chooser struct{ binding *plugin.Binding }

func (c chooser) Choose(ctx context.Context, tenant string, input []byte, n int) ([]int, string, error) {
	return c.binding.ChooseFor(ctx, tenant, input, n)
}

// binder binds router plugins. A plugin with the same settings is bound only once, however many models and rules use
// it.
type binder struct {
	config   *config.Router
	plugins  *plugin.Set
	redactor *credential.Redactor
	bound    map[string]*routing.Router // by plugin and settings
}

// bind returns a router, or nil for the configured order.
func (b *binder) bind(ctx context.Context, c config.ModelRouter) (*routing.Router, error) {
	if c.Plugin == "" {
		return nil, nil
	}
	key := c.Plugin + "\x00" + string(c.Settings)
	if r := b.bound[key]; r != nil {
		return r, nil
	}
	used := b.plugins.Plugin(c.Plugin)
	if !used.Router() {
		return nil, fmt.Errorf("plugin %s is %s, not a router", c.Plugin, used.Kind())
	}
	binding, err := used.Bind(ctx, plugin.BindingConfig{Name: "router", Settings: c.Settings, Redact: b.redactor.Redact, Searches: b.redactor.Searches})
	if err != nil {
		return nil, err
	}
	r := &routing.Router{Plugin: c.Plugin, Chooser: chooser{binding}, Always: b.config.Always, Refuse: b.config.Refuse, Reads: b.config.Reads, Settings: c.Settings}
	if r.Parts, r.Compact = binding.Reads(); !r.Compact && used.Minor() >= costsMinor {
		r.Parts = abi.RouterCosts
	}
	if minor := used.Minor(); minor > 0 && minor < measuredMinor {
		r.Parts &^= abi.RouterMeasured
	}
	b.bound[key] = r
	return r, nil
}
