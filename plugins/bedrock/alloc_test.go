//go:build !race

package bedrock

import "testing"

func TestEventDoesNotAllocate(t *testing.T) { suite.TestEventsDoNotAllocate(t, streamEvents) }
