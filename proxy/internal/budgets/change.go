// Package budgets is how operators look at budgets and change them in mid-window.
//
// A change is a file that a command writes into a folder of the gateway's state folder: whoever may write there may change budgets, and
// no address accepts changes. The gateway renames the file, which claims it, makes the change, and leaves a receipt, for which the
// command waits. A change that no gateway claims stays for the next one to start. Each has an ID, and is made once whatever is repeated
// after a crash.
//
// The package owns the files, and lists of budgets and changes as people and programs read them. What a change does to a budget is the
// gateway's (Apply), and counting is package spend's.
//
// Concurrency: an Inbox is safe for concurrent use; everything else has no state.
package budgets

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// The bounds of a change.
const (
	maxName   = 1 << 10      // bytes
	maxReason = 500          // bytes
	maxFile   = 8 << 10      // bytes, of the file
	maxRaise  = 9_000_000e9  // nano-dollars: the largest budget
	idBytes   = 8            // of randomness
	timeForm  = time.RFC3339 // of windows in files
)

// Change is a change of a budget in one of its windows.
type Change struct {
	ID     string
	Scope  spend.Scope
	Per    config.Period
	Start  time.Time // of the window that is changed; zero for one without a start
	Raise  cost.Nano // what the budget is raised by, negative to lower it; 0 makes all of it left again
	Reason string
}

// NewChange returns a change of the current window, without its start. usd is what the budget is raised by; "": it is reset.
func NewChange(kind, name, per, usd, reason string) (*Change, error) {
	k, err := ParseKind(kind)
	if err != nil {
		return nil, err
	}
	c := &Change{ID: newID(), Scope: spend.Scope{Kind: k, Name: name}, Reason: strings.TrimSpace(reason)}
	var ok bool
	if c.Per, ok = config.ParsePeriod(per); !ok {
		return nil, fmt.Errorf("invalid period %q: want minute, hour, day, week, month or total", per)
	}
	if usd != "" {
		if c.Raise, err = cost.ParseNano(usd); err != nil || c.Raise == 0 {
			return nil, fmt.Errorf("invalid amount %q: want US dollars, such as 50 or 0.5", usd)
		}
	}
	return c, c.Check()
}

// NewConfigured is NewChange for a budget of a configuration, in the window that now is in. end is the end of that; zero for one without.
func NewConfigured(cfg *config.Config, kind, name, per, usd, reason string, now time.Time) (c *Change, end time.Time, err error) {
	if c, err = NewChange(kind, name, per, usd, reason); err != nil {
		return nil, end, err
	}
	for _, l := range spend.Configured(cfg) {
		if l.Scope == c.Scope && slices.ContainsFunc(l.Budgets, func(b config.Budget) bool { return b.Per == c.Per }) {
			c.Start, end = c.Per.Window(now, cfg.Store.Zone)
			return c, end, nil
		}
	}
	return nil, end, fmt.Errorf("%s has no budget per %s in %s", c.Scope, c.Per, cfg.Path)
}

func newID() string {
	id := make([]byte, idBytes)
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(id)
}

// Check says what is wrong with a change.
func (c *Change) Check() error {
	switch {
	case !validID(c.ID):
		return errors.New("invalid id")
	case c.Scope.Name == "" || len(c.Scope.Name) > maxName:
		return errors.New("invalid name")
	case c.Raise > maxRaise || c.Raise < -maxRaise:
		return fmt.Errorf("invalid amount: want at most %s US dollars", cost.Nano(maxRaise))
	case strings.TrimSpace(c.Reason) == "":
		return errors.New("a change needs a reason")
	case len(c.Reason) > maxReason || !utf8.ValidString(c.Reason) || strings.ContainsFunc(c.Reason, unicode.IsControl):
		return fmt.Errorf("invalid reason: want one line of at most %d bytes", maxReason)
	}
	return nil
}

func validID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == idBytes && strings.ToLower(id) == id
}

// ParseKind returns the kind of scope of that name.
func ParseKind(name string) (spend.Kind, error) {
	for k := spend.Key; k <= spend.Provider; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("invalid scope %q: want key, team, model or provider", name)
}

// document is a Change in its file.
type document struct {
	ID     string     `json:"id"`
	Scope  string     `json:"scope"`
	Name   string     `json:"name"`
	Per    string     `json:"per"`
	Start  string     `json:"window_start,omitempty"`
	Raise  *cost.Nano `json:"raise_usd,omitempty"` // nil: a reset
	Reason string     `json:"reason"`
}

// encode returns the change as its file has it.
func (c *Change) encode() ([]byte, error) {
	d := document{ID: c.ID, Scope: c.Scope.Kind.String(), Name: c.Scope.Name, Per: c.Per.String(), Reason: c.Reason}
	if !c.Start.IsZero() {
		d.Start = c.Start.UTC().Format(timeForm)
	}
	if c.Raise != 0 {
		d.Raise = &c.Raise
	}
	return json.Marshal(d)
}

// Parse reads the file of a change.
func Parse(data []byte) (*Change, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	var d document
	if err := in.Decode(&d); err != nil {
		return nil, errors.New("not a change of a budget in JSON")
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	kind, err := ParseKind(d.Scope)
	if err != nil {
		return nil, err
	}
	c := &Change{ID: d.ID, Scope: spend.Scope{Kind: kind, Name: d.Name}, Reason: d.Reason}
	var ok bool
	if c.Per, ok = config.ParsePeriod(d.Per); !ok {
		return nil, errors.New("invalid period")
	}
	if c.Per != config.PerTotal {
		if c.Start, err = time.Parse(timeForm, d.Start); err != nil || c.Start.IsZero() {
			return nil, errors.New("invalid start of the window")
		}
	} else if d.Start != "" {
		return nil, errors.New("a total budget has no window")
	}
	if d.Raise != nil {
		if c.Raise = *d.Raise; c.Raise == 0 {
			return nil, errors.New("a raise by nothing")
		}
	}
	return c, c.Check()
}
