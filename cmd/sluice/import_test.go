package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config/importer"
)

// TestImport translates the examples of both projects with the binary, and has `sluice check` accept each result once
// the variables are set that its first lines list.
func TestImport(t *testing.T) {
	binary := buildSluice(t, true)
	credential := filepath.Join(t.TempDir(), "google.json")
	write(t, credential, []byte(`{"type":"service_account"}`))
	for program, translate := range map[string]func([]byte) (*importer.Result, error){"litellm": importer.LiteLLM, "bifrost": importer.Bifrost} {
		for _, ext := range []string{"yaml", "json"} {
			files, err := filepath.Glob("testdata/import/" + program + "/*." + ext)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				t.Run(program+"/"+filepath.Base(file), func(t *testing.T) {
					data, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					want, err := translate(data)
					if err != nil {
						t.Fatal(err)
					}
					dir := t.TempDir()
					source := filepath.Join(dir, "foreign")
					write(t, source, data)
					printed := run(t, binary, dir, nil, []string{"import", program, source})
					if printed.exit != 0 || printed.stdout != want.Text || printed.stderr != "" {
						t.Fatalf("%+v", printed)
					}
					if got := run(t, binary, dir, nil, []string{"import", program, source, "-o", "gateway.toml"}); got.exit != 0 {
						t.Fatalf("%+v", got)
					}
					again := run(t, binary, dir, nil, []string{"import", program, source, "-o", "gateway.toml"})
					if again.exit != 1 || again.stderr != "sluice: gateway.toml exists; overwrite it with --force\n" {
						t.Errorf("%+v", again)
					}
					if got := run(t, binary, dir, nil, []string{"import", program, source, "-o", "gateway.toml", "--force"}); got.exit != 0 {
						t.Errorf("%+v", got)
					}
					if text, err := os.ReadFile(filepath.Join(dir, "gateway.toml")); err != nil || !bytes.Equal(text, []byte(want.Text)) {
						t.Errorf("gateway.toml is %s, %v", text, err)
					}
					var vars []string
					for _, v := range want.Variables {
						value := v.Sample()
						if v.Kind == "file" {
							value = credential
						}
						vars = append(vars, v.Name+"="+value)
					}
					checked := run(t, binary, dir, vars, []string{"check"})
					if checked.exit != 0 || !strings.Contains(checked.stdout, "gateway.toml is valid: ") || strings.Contains(checked.stdout, " is off: ") {
						t.Errorf("%+v\nof\n%s", checked, want.Text)
					}
				})
			}
		}
	}
}
