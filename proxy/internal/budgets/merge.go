package budgets

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Part is the list of budgets of one of several gateways.
type Part struct {
	Gateway string
	Text    []byte // as List.Write writes it in the format json
}

// amounts are the amounts of a budget in the JSON format.
type amounts struct {
	Limit     cost.Nano `json:"limit_usd"`
	Raised    cost.Nano `json:"raised_usd"`
	Spent     cost.Nano `json:"spent_usd"`
	Uncertain cost.Nano `json:"uncertain_usd"`
	Held      cost.Nano `json:"held_usd"`
	Left      cost.Nano `json:"left_usd"`
}

// budget is a budget in the JSON format.
type budget struct {
	Scope, Name, Per string
	Start            string `json:"window_start"` // "" for null
	End              string `json:"window_end"`
	amounts
	Shared bool
}

// key returns what the same budget has in common at several gateways. Gateways may differ in the time zone of a window.
func (b *budget) key() string {
	instant := func(text string) string {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at.UTC().Format(time.RFC3339)
		}
		return text
	}
	return strings.Join([]string{b.Scope, b.Name, b.Per, instant(b.Start), instant(b.End), sharedText(b.Shared)}, "\x00")
}

// add adds the same budget of another gateway. A shared budget is one for all gateways: of it each gateway knows what all
// have spent, some later than others, and only what it has booked itself for unknown outcomes.
func (b *budget) add(o *budget) {
	if b.Shared {
		uncertain := b.Uncertain + o.Uncertain
		if o.Spent > b.Spent {
			b.amounts = o.amounts
		}
		b.Uncertain = uncertain
		return
	}
	b.Limit += o.Limit
	b.Raised += o.Raised
	b.Spent += o.Spent
	b.Uncertain += o.Uncertain
	b.Held += o.Held
	b.Left += o.Left
}

func (b *budget) row() []string {
	return []string{
		b.Scope, b.Name, b.Per, b.Start, b.End,
		b.Limit.String(), b.Raised.String(), b.Spent.String(), b.Uncertain.String(), b.Held.String(), b.Left.String(), sharedText(b.Shared),
	}
}

// Merge adds up the budgets of several gateways. With byGateway, it lists those of each gateway instead, with a column
// for its name.
func Merge(parts []Part, byGateway bool) (*List, error) {
	l := &List{name: "budgets", columns: statusColumns}
	if byGateway {
		l.columns = slices.Concat(statusColumns, []column{{"gateway", false}})
	}
	var all []*budget
	byKey := make(map[string]*budget)
	for _, p := range parts {
		var document struct{ Budgets []budget }
		if err := json.Unmarshal(p.Text, &document); err != nil {
			return nil, fmt.Errorf("%s: budgets: %w", p.Gateway, err)
		}
		for i := range document.Budgets {
			b := &document.Budgets[i]
			switch same := byKey[b.key()]; {
			case byGateway:
				l.rows = append(l.rows, append(b.row(), p.Gateway))
			case same != nil:
				same.add(b)
			default:
				byKey[b.key()] = b
				all = append(all, b)
			}
		}
	}
	for _, b := range all {
		l.rows = append(l.rows, b.row())
	}
	return l, nil
}
