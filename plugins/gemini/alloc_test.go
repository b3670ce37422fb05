//go:build !race

package gemini

import "testing"

func TestEventDoesNotAllocate(t *testing.T) { suite.TestEventsDoNotAllocate(t, streamEvents) }
