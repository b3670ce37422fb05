package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// update reports whether to rewrite testdata. The flag belongs to package plugintest.
func update() bool { return flag.Lookup("update").Value.String() == "true" }

// script is a file in testdata. It consists of sections, each of which starts with a line "-- name --".
//
// args is the command line, or several with the same result, one per line; env is the environment; bare selects the
// binary without plugins; want, stdout and stderr are the expected result. All other sections are files in the working
// directory, and ROOT stands for the repository.
type script struct {
	comment string
	names   []string
	text    map[string]string
}

var section = regexp.MustCompile(`(?m)^-- (args|env|bare|want|stdout|stderr|\S+\.\S+) --\n`)

func parseScript(t *testing.T, data string) *script {
	t.Helper()
	s := &script{text: map[string]string{}}
	marks := section.FindAllStringSubmatchIndex(data, -1)
	if len(marks) == 0 {
		t.Fatal("no section")
	}
	s.comment = data[:marks[0][0]]
	for i, m := range marks {
		end := len(data)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		name := data[m[2]:m[3]]
		s.names = append(s.names, name)
		s.text[name] = data[m[1]:end]
	}
	return s
}

func (s *script) set(name, text string) {
	if _, ok := s.text[name]; !ok {
		s.names = append(s.names, name)
	}
	s.text[name] = text
}

func (s *script) String() string {
	var b strings.Builder
	b.WriteString(s.comment)
	for _, name := range s.names {
		b.WriteString("-- " + name + " --\n" + s.text[name])
	}
	return b.String()
}

// normalizations replace output that differs between runs, builds and machines.
var normalizations = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`(?m)^Compil(ing|ed) plugins? .*\n`), ""},     // printed only if the cache is empty
	{regexp.MustCompile(`(?m)^\S+ +provider +built in +no .*\n`), ""}, // other built-in plugins
	{regexp.MustCompile(`sk-sluice-[A-Za-z0-9_-]{43}`), "KEY"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "SHA256"},
	{regexp.MustCompile(`\d\.\d MB`), "N.N MB"},
	{regexp.MustCompile(regexp.QuoteMeta(runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH)), "GO, OS/ARCH"},
}

// TestCommandLines runs testdata/*.txt.
func TestCommandLines(t *testing.T) {
	if testing.Short() {
		t.Skip("runs fifty processes")
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := parseScript(t, string(data))
			dir := t.TempDir()
			for name, text := range s.text {
				switch name {
				case "args", "env", "bare", "want", "stdout", "stderr":
				default:
					path := filepath.Join(dir, name)
					if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
						t.Fatal(err)
					}
					write(t, path, []byte(text))
				}
			}
			_, bare := s.text["bare"]
			out := strings.NewReplacer(cacheDir(), "CACHE", root, "ROOT", dir, "DIR")
			for i, line := range strings.Split(strings.TrimSpace(s.text["args"]), "\n") {
				args := strings.Fields(strings.ReplaceAll(line, "ROOT", root))
				got := run(t, buildSluice(t, !bare), dir, strings.Fields(s.text["env"]), args)
				for _, output := range [][2]string{{"want", "exit " + strconv.Itoa(got.exit) + "\n"}, {"stdout", got.stdout}, {"stderr", got.stderr}} {
					section, text := output[0], out.Replace(output[1])
					for _, r := range normalizations {
						text = r.re.ReplaceAllString(text, r.to)
					}
					if i == 0 && update() {
						s.set(section, text)
					}
					if want := s.text[section]; text != want {
						t.Errorf("sluice %s: %s is\n%s\nwant\n%s", line, section, text, want)
					}
				}
			}
			if update() {
				write(t, file, []byte(s.String()))
			}
		})
	}
}

func TestDefaultConfiguration(t *testing.T) {
	commands := [][]string{{"check"}, {"models"}, {"plugin", "list"}}
	if testing.Short() {
		commands = commands[:1]
	}
	for _, args := range commands {
		got := run(t, buildSluice(t, true), "../..", nil, args)
		for _, r := range normalizations {
			got.stderr = r.re.ReplaceAllString(got.stderr, r.to)
		}
		if got.exit != 0 || got.stderr != "" || !strings.Contains(got.stdout, "demo") && !strings.Contains(got.stdout, "gateway.toml is valid: 1 key, ") {
			t.Errorf("sluice %v: %+v", args, got)
		}
	}
}
