package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// rolloutKind is the kind of a Rollout's document.
const rolloutKind = "sluice.rollout.v1"

// Rollout says which nodes run which bundle.
type Rollout struct {
	Kind     string    `json:"kind"`
	Scope    string    `json:"scope"`    // the source that nodes follow, so that another environment's document is rejected
	Sequence int64     `json:"sequence"` // higher than that of each earlier rollout by the same key
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
	Current  string    `json:"current,omitempty"` // digest of the bundle of nodes in no stage; "" if there is none
	Next     string    `json:"next"`              // digest of the bundle of nodes in an open stage
	Stages   []Stage   `json:"stages"`
}

// Stage selects nodes, by one of its first three fields.
type Stage struct {
	Tag     string  `json:"tag,omitempty"`
	Name    string  `json:"name,omitempty"`
	Percent float64 `json:"percent,omitempty"`
	After   int64   `json:"after_seconds,omitempty"` // when the stage opens, from Created
}

// ParseStage parses a stage as publishers write it: tag:TAG, name:NODE or PERCENT%, and +DURATION if it opens later.
func ParseStage(text string) (Stage, error) {
	want := fmt.Errorf("%q is not a stage: want tag:TAG, name:NODE or PERCENT%%, and +DURATION if it opens later, as in 25%%+1h", text)
	who, later, delayed := strings.Cut(text, "+")
	s := Stage{}
	if delayed {
		after, err := time.ParseDuration(later)
		if err != nil || after < time.Second || after > 365*24*time.Hour {
			return s, want
		}
		s.After = int64(after / time.Second)
	}
	if percent, ok := strings.CutSuffix(who, "%"); ok {
		var err error
		s.Percent, err = strconv.ParseFloat(percent, 64)
		if err != nil || !(s.Percent > 0 && s.Percent <= 100) {
			return s, want
		}
		return s, nil
	}
	kind, value, _ := strings.Cut(who, ":")
	switch kind {
	case "tag":
		s.Tag = value
	case "name":
		s.Name = value
	default:
		return s, want
	}
	if value == "" {
		return s, want
	}
	return s, nil
}

// String returns the stage as ParseStage reads it.
func (s Stage) String() string {
	text := "tag:" + s.Tag
	switch {
	case s.Name != "":
		text = "name:" + s.Name
	case s.Percent > 0:
		text = strconv.FormatFloat(s.Percent, 'f', -1, 64) + "%"
	}
	if s.After > 0 {
		text += "+" + (time.Duration(s.After) * time.Second).String()
	}
	return text
}

func (s *Stage) valid() bool {
	selectors := 0
	for _, set := range []bool{s.Tag != "", s.Name != "", s.Percent != 0} {
		if set {
			selectors++
		}
	}
	return selectors == 1 && s.Percent >= 0 && s.Percent <= 100 && s.After >= 0 && s.After <= 365*24*3600
}

// selects reports whether a node is in the stage. The share of a node depends on its name only, so the nodes in 25 % are
// also in 50 %.
func (s *Stage) selects(name string, tags []string) bool {
	if s.Percent > 0 {
		sum := sha256.Sum256([]byte(name))
		return float64(binary.BigEndian.Uint32(sum[:]))/(1<<32) < s.Percent/100
	}
	return s.Tag != "" && slices.Contains(tags, s.Tag) || s.Name != "" && s.Name == name
}

// parseRollout parses and checks a document whose signature is valid. Unknown fields are an error: they would be
// restrictions that this version does not know.
func parseRollout(data []byte, scope string) (*Rollout, error) {
	r := new(Rollout)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil || d.More() {
		return nil, errors.Join(errors.New("the rollout is not a valid document"), err)
	}
	switch {
	case r.Kind != rolloutKind:
		return nil, fmt.Errorf("the rollout is of kind %.40q: want %s", r.Kind, rolloutKind)
	case r.Scope != scope:
		return nil, fmt.Errorf("the rollout is for %.200q, not for %s", r.Scope, scope)
	case r.Sequence < 1:
		return nil, errors.New("the rollout has no sequence")
	case !oci.Digest(r.Next).Valid() || r.Current != "" && !oci.Digest(r.Current).Valid():
		return nil, errors.New("the rollout names a bundle without a valid digest")
	case r.Created.IsZero() || r.Expires.IsZero():
		return nil, errors.New("the rollout has no time of creation or expiry")
	case slices.ContainsFunc(r.Stages, func(s Stage) bool { return !s.valid() }):
		return nil, errors.New("the rollout has a stage that selects nothing, or in two ways")
	}
	return r, nil
}

// bundle returns the digest of the bundle that a node is to run at a time; "" if the rollout has none for it yet. A node
// that runs the next one already keeps it, so that a clock that is set back does not.
func (r *Rollout) bundle(name string, tags []string, has oci.Digest, now time.Time) oci.Digest {
	for i := range r.Stages {
		s := &r.Stages[i]
		open := s.After == 0 || has == oci.Digest(r.Next) || !now.Before(r.Created.Add(time.Duration(s.After)*time.Second))
		if open && s.selects(name, tags) {
			return oci.Digest(r.Next)
		}
	}
	return oci.Digest(r.Current)
}
