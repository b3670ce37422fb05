package importer_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/importer"
)

var update = flag.Bool("update", false, "rewrite golden files")

// programs are the programs whose configurations are translated, by the folders with their examples.
var programs = map[string]func([]byte) (*importer.Result, error){"litellm": importer.LiteLLM, "bifrost": importer.Bifrost}

const examples = "../../../cmd/sluice/testdata/import"

// TestExamples translates the examples of both projects, and compares the results with golden files.
func TestExamples(t *testing.T) {
	for program, translate := range programs {
		files, err := filepath.Glob(filepath.Join(examples, program, "*."+map[string]string{"litellm": "yaml", "bifrost": "json"}[program]))
		if err != nil || len(files) < 3 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			t.Run(program+"/"+filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				r, err := translate(data)
				if err != nil {
					t.Fatal(err)
				}
				parse(t, r)
				golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".toml"
				if *update {
					if err := os.WriteFile(golden, []byte(r.Text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), r.Text); diff != "" {
					t.Errorf("got the difference (-want +got)\n%s", diff)
				}
			})
		}
	}
}

// parse parses a result with samples for its variables.
func parse(t *testing.T, r *importer.Result) *config.Config {
	t.Helper()
	c, err := config.Parse("gateway.toml", []byte(r.Text), config.Options{
		Env: func(name string) (string, bool) {
			for _, v := range r.Variables {
				if v.Name == name {
					return v.Sample(), true
				}
			}
			return "", false
		},
		Bundled:  []string{"openai", "anthropic", "gemini", "bedrock", "cohere", "router"},
		ReadFile: func(string) ([]byte, error) { return []byte(`{"type":"service_account"}`), nil },
	})
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, r.Text)
	}
	return c
}
