//go:build !race

package cohere

import "testing"

func TestEventDoesNotAllocate(t *testing.T) { suite.TestEventsDoNotAllocate(t, streamEvents) }
