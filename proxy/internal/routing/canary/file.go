package canary

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// fileFormat is the version of the file's format.
const fileFormat = 1

// document is the file. The digest finds damage that is still valid JSON.
type document struct {
	Format   int             `json:"format"`
	SHA256   string          `json:"sha256"` // of Canaries, as it stands
	Canaries json.RawMessage `json:"canaries"`
}

// keptState is what the file has of a canary.
type keptState struct {
	Model      string     `json:"model"`
	Table      string     `json:"table"`  // digest of its settings
	Target     string     `json:"target"` // for whoever reads the file
	Step       int        `json:"step"`   // from 0
	Attempts   int64      `json:"attempts"`
	Errors     int64      `json:"errors"`
	Traps      int64      `json:"traps"`
	RolledBack *time.Time `json:"rolled_back,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// keep returns what is kept of the canary. c.mu is held.
func (c *Canary) keep() keptState {
	k := keptState{
		Model: c.model, Table: c.table, Target: c.settings.Target, Step: c.step, Attempts: c.attempts, Errors: c.errors, Traps: c.traps,
		Reason: c.reason,
	}
	if c.reason != "" {
		at := c.backAt
		k.RolledBack = &at
	}
	return k
}

// state is the state that was kept, of a canary that begins at now.
func (k *keptState) state(now time.Time) state {
	s := state{step: k.Step, began: now, attempts: k.Attempts, errors: k.Errors, traps: k.Traps, reason: k.Reason}
	if k.RolledBack != nil {
		s.backAt = *k.RolledBack
	}
	return s
}

// valid reports what no canary is kept as.
func (k *keptState) valid() error {
	switch {
	case k.Step < 0, k.Attempts < 0, k.Errors < 0, k.Traps < 0, k.Errors > k.Attempts:
		return fmt.Errorf("canary of model %q: impossible counts", k.Model)
	case (k.RolledBack != nil) != (k.Reason != ""):
		return fmt.Errorf("canary of model %q: rolled back without a reason, or the reverse", k.Model)
	}
	return nil
}

// format spells the file.
func format(states []keptState) []byte {
	// Both values always marshal.
	canaries, _ := json.Marshal(states)
	sum := sha256.Sum256(canaries)
	data, _ := json.Marshal(document{Format: fileFormat, SHA256: hex.EncodeToString(sum[:]), Canaries: canaries})
	return append(data, '\n')
}

// parse reads the file; its bytes may be anything.
func parse(data []byte) (map[name]*keptState, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("not a whole document: %w", err)
	}
	if d.Format != fileFormat {
		return nil, fmt.Errorf("format %d, want %d", d.Format, fileFormat)
	}
	if sum := sha256.Sum256(d.Canaries); d.SHA256 != hex.EncodeToString(sum[:]) {
		return nil, errors.New("the digest does not match: the file was damaged or edited")
	}
	var states []keptState
	decoder := json.NewDecoder(bytes.NewReader(d.Canaries))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&states); err != nil {
		return nil, err
	}
	kept := make(map[name]*keptState, len(states))
	for i := range states {
		k := &states[i]
		if err := k.valid(); err != nil {
			return nil, err
		}
		if n := (name{k.Model, k.Table}); kept[n] == nil {
			kept[n] = k
			continue
		}
		return nil, fmt.Errorf("canary of model %q: twice", k.Model)
	}
	return kept, nil
}
