//go:build !race

package ollama

import "testing"

func TestEventDoesNotAllocate(t *testing.T) { suite.TestEventsDoNotAllocate(t, streamEvents) }
