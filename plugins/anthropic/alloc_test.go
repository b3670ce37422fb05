//go:build !race

package anthropic

import "testing"

func TestEventDoesNotAllocate(t *testing.T) { suite.TestEventsDoNotAllocate(t, streamEvents) }
