package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/pull"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// Publisher pushes and reads bundles and rollouts. Close it.
type Publisher struct {
	client *distribution.Client
	puller *pull.Puller
	keys   []PublicKey
}

// NewPublisher returns a Publisher that uses [registries] of a configuration, and accepts what these keys have signed.
func NewPublisher(cfg *config.Config, keys ...PublicKey) *Publisher {
	return &Publisher{
		client: distribution.New(modules.Registries(cfg)), puller: pull.New(pull.Options{Registry: modules.Registries(cfg)}), keys: keys,
	}
}

// Close closes the connections to registries.
func (p *Publisher) Close() {
	p.client.Close()
	p.puller.Close()
}

// CheckReference returns an error unless a text names a document in a registry; tag says that it must be named by tag.
func CheckReference(text string, tag bool) error {
	r, err := oci.ParseReference(text)
	switch {
	case err != nil:
		return err
	case tag && (r.Tag == "" || r.Digest != ""):
		return errors.New("must be a tag without a digest, such as oci://registry.example.com/acme/fleet:prod")
	}
	return nil
}

// PushBundle signs and pushes the text of a bundle, which is checked by the caller, and returns its reference by digest.
func (p *Publisher) PushBundle(ctx context.Context, reference string, content []byte, key SecretKey) (pinned string, err error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return "", err
	}
	if r.Digest, err = bundles.push(ctx, p.client, r, content, key); err != nil {
		return "", err
	}
	return r.String(), nil
}

// SignBundle returns the file of the signature of a bundle, for minisign.
func SignBundle(content []byte, key SecretKey) []byte { return key.sign(content, bundles.comment) }

// PushRollout completes, signs and pushes a rollout: its Kind, its Scope, its Sequence, which is higher than that of the
// rollout that the tag names now, and Current, if it is empty, from that rollout. The bundles that it names must be in the
// same repository, and signed with the Publisher's keys.
func (p *Publisher) PushRollout(ctx context.Context, reference string, o *Rollout, key SecretKey) error {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return err
	}
	last, err := p.ReadRollout(ctx, reference)
	if _, missing := errors.AsType[*missingError](err); err != nil && !missing {
		return fmt.Errorf("the rollout that the tag names now: %w", err)
	}
	o.Kind, o.Scope, o.Sequence = rolloutKind, reference, 1
	if last != nil {
		o.Sequence = last.Sequence + 1
		if o.Current == "" {
			o.Current = last.settled()
		}
	}
	for _, digest := range []string{o.Current, o.Next} {
		if digest == "" {
			continue
		}
		if _, err := p.ReadBundle(ctx, oci.Reference{Registry: r.Registry, Repository: r.Repository, Digest: oci.Digest(digest)}.String()); err != nil {
			return err
		}
	}
	content, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	content = append(content, '\n')
	if _, err := parseRollout(content, reference); err != nil {
		return err
	}
	_, err = rollouts.push(ctx, p.client, r, content, key)
	return err
}

// settled returns the bundle of most nodes: that of the last stage if it has all of them, else the current one.
func (r *Rollout) settled() string {
	for _, s := range r.Stages {
		if s.Percent == 100 {
			return r.Next
		}
	}
	return r.Current
}

// missingError says that a tag names nothing yet.
type missingError struct{ error }

func (e *missingError) Unwrap() error { return e.error }

// ReadRollout returns the rollout that a tag names now.
func (p *Publisher) ReadRollout(ctx context.Context, reference string) (*Rollout, error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return nil, err
	}
	if r.Digest, err = p.puller.Resolve(ctx, r); err != nil {
		if distribution.IsMissing(err) {
			return nil, &missingError{err}
		}
		return nil, err
	}
	signed, err := rollouts.open(ctx, p.puller, r, p.keys)
	if err != nil {
		return nil, err
	}
	return parseRollout(signed.Content, reference)
}

// ReadBundle returns a bundle, by digest or tag, and its digest.
func (p *Publisher) ReadBundle(ctx context.Context, reference string) (*Signed, error) {
	r, err := oci.ParseReference(reference)
	if err == nil {
		r, err = p.puller.Pin(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return bundles.open(ctx, p.puller, r, p.keys)
}

// Describe returns the rollout in words.
func (r *Rollout) Describe() string {
	var stages []string
	for _, s := range r.Stages {
		stages = append(stages, s.String())
	}
	current := r.Current
	if current == "" {
		current = "none"
	}
	return fmt.Sprintf("rollout   %s\nsequence  %d\ncreated   %s\nexpires   %s\ncurrent   %s\nnext      %s\nstages    %s\n",
		r.Scope, r.Sequence, r.Created.Format(time.RFC3339), r.Expires.Format(time.RFC3339), current, r.Next, strings.Join(stages, " "))
}

// FindBundle verifies a bundle in the repository of a reference, by tag or digest, and returns its digest.
func (p *Publisher) FindBundle(ctx context.Context, reference, bundle string) (digest string, err error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return "", err
	}
	if r.Tag, r.Digest = "", oci.Digest(bundle); !r.Digest.Valid() {
		r.Tag, r.Digest = bundle, ""
		if r, err = oci.ParseReference(r.String()); err != nil {
			return "", err
		}
		if r.Digest, err = p.puller.Resolve(ctx, r); err != nil {
			return "", err
		}
	}
	if _, err := bundles.open(ctx, p.puller, r, p.keys); err != nil {
		return "", err
	}
	return string(r.Digest), nil
}
