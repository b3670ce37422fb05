package plugindev_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// The profile of a plugin names its functions with their lines, accounts for nearly all fuel, and is the same each time.
func TestProfile(t *testing.T) {
	s := openSuite(t, "../../examples/plugins/testdata/provider")
	s.Use.Paths = []string{"/say"}
	m := plugindev.Module{Name: "go-provider", Wasm: plugintest.Build(t, provider)}
	var before []byte
	for range 2 {
		p, err := s.Profile(t.Context(), newHost(t), m, 200)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		out, err := profile.ParseData(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		out.TimeNanos = 0
		if err := out.WriteUncompressed(&text); err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, text.Bytes()) {
			t.Error("two profiles differ")
		}
		before = text.Bytes()

		total, own := int64(0), false
		for _, sample := range out.Sample {
			total += sample.Value[0]
			root := sample.Location[len(sample.Location)-1].Line[0].Function.Name
			if !strings.HasPrefix(root, "provider_") {
				t.Errorf("got a stack that begins with %s", root)
			}
			for _, l := range sample.Location {
				line := l.Line[0]
				if line.Function.Name == "main.(*echo).Request" {
					own = own || line.Line > line.Function.StartLine && line.Function.StartLine > 0
				}
			}
		}
		if share := float64(total) / float64(p.Units); share < 0.9 || share > 1.1 {
			t.Errorf("the samples have %.2f of the fuel", share)
		}
		if !own {
			t.Error("no sample has a line of the plugin's own function")
		}
		sum := 0.0
		for _, f := range p.Functions() {
			sum += f.Own
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("the functions' own shares add up to %f", sum)
		}
		var picture bytes.Buffer
		if err := p.WriteFlameGraph(&picture); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(picture.String(), "<title>"); n < 10 || !strings.Contains(picture.String(), "provider_event") {
			t.Errorf("the picture has %d boxes", n)
		}
		for d := xml.NewDecoder(&picture); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestProfileWithoutVectors(t *testing.T) {
	m := plugindev.Module{Name: "go-provider", Wasm: plugintest.Build(t, provider)}
	if _, err := openSuite(t, t.TempDir()).Profile(t.Context(), newHost(t), m, 1); err == nil || !strings.Contains(err.Error(), "no vectors of a provider") {
		t.Errorf("got error %v", err)
	}
}
