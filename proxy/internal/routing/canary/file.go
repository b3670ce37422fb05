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

// document is the content of the file. The digest detects damage that leaves the JSON valid.
type document struct {
	Format   int             `json:"format"`
	SHA256   string          `json:"sha256"` // digest of the bytes of Canaries, in hex
	Canaries json.RawMessage `json:"canaries"`
}

// savedState is a canary's state in the file.
type savedState struct {
	Model      string     `json:"model"`
	Table      string     `json:"table"`  // digest of the settings
	Target     string     `json:"target"` // for people who read the file; the gateway ignores it
	Step       int        `json:"step"`   // from 0
	Attempts   int64      `json:"attempts"`
	Errors     int64      `json:"errors"`
	Traps      int64      `json:"traps"`
	RolledBack *time.Time `json:"rolled_back,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// stateToSave returns the canary's state for the file. The caller holds c.mu.
func (c *Canary) stateToSave() savedState {
	s := savedState{
		Model: c.model, Table: c.table, Target: c.settings.Target, Step: c.step, Attempts: c.attempts, Errors: c.errors, Traps: c.traps,
		Reason: c.reason,
	}
	if c.reason != "" {
		at := c.rolledBackAt
		s.RolledBack = &at
	}
	return s
}

// restore returns the state of a canary whose current step starts at now.
func (s *savedState) restore(now time.Time) state {
	restored := state{step: s.Step, began: now, attempts: s.Attempts, errors: s.Errors, traps: s.Traps, reason: s.Reason}
	if s.RolledBack != nil {
		restored.rolledBackAt = *s.RolledBack
	}
	return restored
}

// validate returns an error for a state that no canary can have.
func (s *savedState) validate() error {
	switch {
	case s.Step < 0, s.Attempts < 0, s.Errors < 0, s.Traps < 0, s.Errors > s.Attempts:
		return fmt.Errorf("canary of model %q: impossible counts", s.Model)
	case (s.RolledBack != nil) != (s.Reason != ""):
		return fmt.Errorf("canary of model %q: rolled_back and reason must be set together", s.Model)
	}
	return nil
}

// format returns the content of the file for some states.
func format(states []savedState) []byte {
	// Marshalling these types cannot fail.
	canaries, _ := json.Marshal(states)
	sum := sha256.Sum256(canaries)
	data, _ := json.Marshal(document{Format: fileFormat, SHA256: hex.EncodeToString(sum[:]), Canaries: canaries})
	return append(data, '\n')
}

// parse parses the content of the file, which may be damaged in any way.
func parse(data []byte) (map[key]*savedState, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("invalid document: %w", err)
	}
	if d.Format != fileFormat {
		return nil, fmt.Errorf("format %d, want %d", d.Format, fileFormat)
	}
	if sum := sha256.Sum256(d.Canaries); d.SHA256 != hex.EncodeToString(sum[:]) {
		return nil, errors.New("the digest does not match: the file was damaged or edited")
	}
	var states []savedState
	decoder := json.NewDecoder(bytes.NewReader(d.Canaries))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&states); err != nil {
		return nil, err
	}
	byKey := make(map[key]*savedState, len(states))
	for i := range states {
		s := &states[i]
		if err := s.validate(); err != nil {
			return nil, err
		}
		k := key{s.Model, s.Table}
		if byKey[k] != nil {
			return nil, fmt.Errorf("canary of model %q: duplicate state", s.Model)
		}
		byKey[k] = s
	}
	return byKey, nil
}
