package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// state is what a node keeps on disk. The bundles themselves are stored by digest next to it.
type state struct {
	Source    string            `json:"source"`    // what the rest is about
	Sequences map[string]int64  `json:"sequences"` // highest sequence accepted, by key ID
	Digest    oci.Digest        `json:"digest"`    // of the rollout's manifest
	Rollout   *Rollout          `json:"rollout,omitempty"`
	Good      oci.Digest        `json:"good"`               // the bundle to start with: it has passed its trial
	Previous  oci.Digest        `json:"previous,omitempty"` // the one before, in case Good is damaged on disk
	Refused   map[string]string `json:"refused,omitempty"`  // why bundles are not tried again, by digest
	Trying    oci.Digest        `json:"trying,omitempty"`   // the bundle on trial
	Starts    int               `json:"starts,omitempty"`   // trials of Trying that did not end
}

// maxStarts is the number of trials that may end with the process before the bundle is refused: it may be what ends it.
const maxStarts = 3

const stateFile = "state.json"

// readState reads the state in a folder. One that is missing, or of another source, is empty: the sequences are for one
// source only, and so are the bundles.
func readState(dir, source string) (state, error) {
	s := state{Source: source, Sequences: map[string]int64{}, Refused: map[string]string{}}
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	read := s
	if err := json.Unmarshal(data, &read); err != nil {
		// Starting afresh would accept a replayed rollout.
		return s, fmt.Errorf("%s is damaged: %w; remove it to start afresh", filepath.Join(dir, stateFile), err)
	}
	if read.Source != source {
		return s, nil
	}
	return read, nil
}

// write replaces the state on disk. After a crash, the old state or the new one is there. written is called in between,
// unless it is nil.
func (s *state) write(dir string, written func() error) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, stateFile+".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && written != nil {
		err = written()
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, stateFile))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	// Without this, the rename may be lost in a crash of the machine. Not all systems can sync a folder.
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}
