package accounting

import "github.com/sluice-gateway/sluice/proxy/internal/ownership"

// ownersFolder is the name of the folder in the state folder with the files of package ownership.
const ownersFolder = "owners"

// NewOwners returns the record of which client key made what providers store. The caller must close it before the
// books.
func (b *Books) NewOwners() *ownership.Store {
	o := ownership.Options{Timeout: b.config.Timeout, Describe: b.redact, Log: b.options.Log, Now: b.options.Now}
	if b.store != nil {
		o.Shared = b.store
	}
	if b.state.Path != "" && !b.options.Offline {
		o.Dir = func() (string, error) { return b.state.Sub(ownersFolder) }
	}
	return ownership.New(o)
}
