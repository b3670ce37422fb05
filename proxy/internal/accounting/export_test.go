package accounting

import "github.com/sluice-gateway/sluice/proxy/internal/budgets"

// Change makes a change as the inbox does.
func (b *Books) Change(c *budgets.Change) (string, error) { return b.change(c) }
