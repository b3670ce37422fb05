// Package budgets lets operators inspect budgets and change them in mid-window.
//
// A command writes a change as a file into a folder of the gateway's state folder. Permission to write there is
// permission to change budgets; there is no network endpoint for it. The gateway claims the file by renaming it,
// applies the change, and writes a receipt, which the command waits for. A change that no gateway has claimed waits for
// the next one to start. Each change has an ID, and is applied only once, even if the gateway repeats it after a crash.
//
// The package owns these files, and renders lists of budgets and changes as tables, JSON and CSV. The gateway supplies
// the function that applies a change (Apply), and package spend counts.
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
	maxName    = 1 << 10      // bytes
	maxReason  = 500          // bytes
	maxFile    = 8 << 10      // bytes of the file
	maxRaise   = 9_000_000e9  // nano-dollars: the largest budget
	idBytes    = 8            // random bytes of an ID
	timeLayout = time.RFC3339 // of a window's start in the file
)

// Change is a change of a budget in one of its windows.
type Change struct {
	ID     string
	Scope  spend.Scope
	Per    config.Period
	Start  time.Time // start of the window; zero for a total budget
	Raise  cost.Nano // amount to raise the budget by, negative to lower it; 0 for another change
	Reason string

	// Release gives back the amounts that are booked for unknown outcomes. Without Raise and Release, the budget is
	// reset: all of it is left again.
	Release bool
}

// NewChange returns a change whose Start is not set. usd is the amount to raise the budget by; "" resets it.
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

// NewConfigured returns a change of a configured budget, in the window that contains now. end is the window's end, zero
// for a total budget.
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

// Check returns an error if the change is invalid.
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

// ParseKind returns the kind of scope of that name. A user has no budget of its own in the configuration to change.
func ParseKind(name string) (spend.Kind, error) {
	for k := spend.Key; k <= spend.Provider; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("invalid scope %q: want key, team, model or provider", name)
}

// document is a Change as JSON.
type document struct {
	ID     string     `json:"id"`
	Scope  string     `json:"scope"`
	Name   string     `json:"name"`
	Per    string     `json:"per"`
	Start  string     `json:"window_start,omitempty"`
	Raise  *cost.Nano `json:"raise_usd,omitempty"` // nil: a reset or a release
	Reason string     `json:"reason"`

	Release bool `json:"release_uncertain,omitempty"`
}

// encode returns the contents of the change's file.
func (c *Change) encode() ([]byte, error) {
	d := document{ID: c.ID, Scope: c.Scope.Kind.String(), Name: c.Scope.Name, Per: c.Per.String(), Reason: c.Reason, Release: c.Release}
	if !c.Start.IsZero() {
		d.Start = c.Start.UTC().Format(timeLayout)
	}
	if c.Raise != 0 {
		d.Raise = &c.Raise
	}
	return json.Marshal(d)
}

// Parse parses the contents of a change's file.
func Parse(data []byte) (*Change, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("file is larger than %d bytes", maxFile)
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	var d document
	if err := in.Decode(&d); err != nil {
		return nil, errors.New("file is not a budget change in JSON")
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, errors.New("file has more than one JSON value")
	}
	kind, err := ParseKind(d.Scope)
	if err != nil {
		return nil, err
	}
	c := &Change{ID: d.ID, Scope: spend.Scope{Kind: kind, Name: d.Name}, Reason: d.Reason, Release: d.Release}
	var ok bool
	if c.Per, ok = config.ParsePeriod(d.Per); !ok {
		return nil, errors.New("invalid period")
	}
	if c.Per != config.PerTotal {
		if c.Start, err = time.Parse(timeLayout, d.Start); err != nil || c.Start.IsZero() {
			return nil, errors.New("invalid window_start")
		}
	} else if d.Start != "" {
		return nil, errors.New("a total budget has no window")
	}
	if d.Raise != nil {
		if c.Raise = *d.Raise; c.Raise == 0 {
			return nil, errors.New("raise_usd is 0")
		}
		if c.Release {
			return nil, errors.New("raise_usd and release_uncertain are both set")
		}
	}
	return c, c.Check()
}
