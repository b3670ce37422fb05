package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// GetOwned implements ownership.Shared.
func (s *Store) GetOwned(ctx context.Context, key string) ([]byte, error) {
	results, err := s.call(ctx, func(b rueidis.Builder) rueidis.Commands {
		return rueidis.Commands{b.Get().Key(s.ownedKey(key)).Build()}
	})
	if err != nil {
		return nil, err
	}
	value, err := results[0].AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("store: %w", err)
	}
	return value, nil
}

// SetOwned implements ownership.Shared.
func (s *Store) SetOwned(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	results, err := s.call(ctx, func(b rueidis.Builder) rueidis.Commands {
		return rueidis.Commands{b.Set().Key(s.ownedKey(key)).Value(rueidis.BinaryString(value)).Ex(ttl).Build()}
	})
	if err != nil {
		return err
	}
	if err := results[0].Error(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// ownedKey returns the key of the record of an object that a provider stores. It needs no hash tag, because each is
// read and written by itself.
func (s *Store) ownedKey(key string) string { return s.prefix + "-owned:" + key }
