package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestTimeline rolls out a good bundle and a bad one to eight nodes, and draws which node runs which bundle when. The
// drawing is in docs/fleet.md. `make test-fleet` does the same with docker-registry.
func TestTimeline(t *testing.T) {
	drawn := drawTimeline(newWorld(t))
	page, err := os.ReadFile("../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+drawn+"```\n") {
		t.Errorf("docs/fleet.md does not have this timeline:\n%s", drawn)
	}
	t.Run("docker-registry", func(t *testing.T) {
		if os.Getenv("FLEET") == "" {
			t.Skip("make test-fleet runs this test")
		}
		program, err := exec.LookPath("docker-registry")
		if err != nil {
			t.Fatal("docker-registry is not installed")
		}
		w := newWorld(t)
		w.source = "oci://" + ocitest.StartDockerRegistry(t.Context(), t, program, t.TempDir()) + "/acme/fleet:prod"
		if again := drawTimeline(w); again != drawn {
			t.Errorf("got another timeline:\n%s", again)
		}
	})
}

// drawTimeline starts eight nodes, of which two have the tag canary.
func drawTimeline(w *world) string {
	good, next, bad := w.push("v1"), w.push("v2"), w.push("fails")
	names := map[string]string{good: "v1", next: "v2", bad: "v3"}
	w.rollout(good, "100%")
	var nodes []*node
	for i := range 8 {
		var tags []string
		if i < 2 {
			tags = []string{"canary"}
		}
		nodes = append(nodes, w.start(w.t.TempDir(), w.config(fmt.Sprintf("node-%d", i+1), tags...)))
	}
	var b strings.Builder
	b.WriteString("minute   1    2    3    4    5    6    7    8\n")
	row := 0
	draw := func(event string, minutes int) {
		if event != "" {
			fmt.Fprintf(&b, "         %s\n", event)
		}
		last := ""
		for range minutes {
			w.run(1, 10, nodes...)
			var line strings.Builder
			for _, n := range nodes {
				s := n.Status()
				cell := names[s.Bundle]
				switch {
				case s.Trial:
					cell += "?"
				case s.Refused[s.Next] != "":
					cell += "!"
				}
				fmt.Fprintf(&line, "%-5s", cell)
			}
			if text := strings.TrimRight(line.String(), " "); text != last {
				fmt.Fprintf(&b, "%4d     %s\n", row, text)
				last = text
			}
			row++
		}
	}
	draw("", 2)
	w.rollout(next, "tag:canary", "50%+10m", "100%+20m")
	draw("rollout of v2: tag:canary, 50%+10m, 100%+20m", 28)
	w.rollout(bad, "tag:canary", "100%+1h")
	draw("rollout of v3, whose provider fails: tag:canary, 100%+1h", 10)
	w.rollout(next, "100%")
	draw("rollout of v2 again", 3)
	return b.String()
}
