package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// ManifestFile is the file that makes a folder the folder of a plugin.
const ManifestFile = "plugin.toml"

// The languages and kinds of plugins.
var (
	Languages = []string{"go", "rust", "c", "assemblyscript"}
	Kinds     = []string{"provider", "router", "filter"}
)

// Project is the folder of a plugin.
type Project struct {
	Dir      string
	Name     string
	Language string // one of Languages
	Kind     string // one of Kinds

	vectors, sdk string
	libc         bool
}

// manifest is plugin.toml.
type manifest struct {
	Name     string `toml:"name"`
	Language string `toml:"language"`
	Kind     string `toml:"kind"`
	Vectors  string `toml:"vectors"`
	SDK      string `toml:"sdk"`
	Libc     bool   `toml:"libc"`
}

// Load reads a folder's plugin.toml.
func Load(dir string) (*Project, error) {
	path := filepath.Join(dir, ManifestFile)
	text, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist: want the folder of a plugin, as `sluice plugin new` writes it", path)
	case err != nil:
		return nil, err
	}
	defer text.Close()
	m := manifest{Kind: "provider", Vectors: filepath.Join("testdata", "vectors"), SDK: "sdk"}
	if err := toml.NewDecoder(text).DisallowUnknownFields().Decode(&m); err != nil {
		return nil, manifestError(path, err)
	}
	err = errors.Join(checkName(m.Name), oneOf("language", m.Language, Languages), oneOf("kind", m.Kind, Kinds))
	if m.Libc && m.Language != "c" {
		err = errors.Join(err, fmt.Errorf("libc is only for plugins in C, not in %s", m.Language))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Project{
		Dir: dir, Name: m.Name, Language: m.Language, Kind: m.Kind,
		vectors: m.Vectors, sdk: m.SDK, libc: m.Libc,
	}, nil
}

// Module returns the path of the module that Build writes.
func (p *Project) Module() string { return filepath.Join(p.Dir, "plugin.wasm") }

// sourceFiles are patterns of the names of files that a build reads, by language.
var sourceFiles = map[string][]string{
	"go": {"*.go", "*.s", "go.mod", "go.sum"}, "rust": {"*.rs"}, "c": {"*.c", "*.h"}, "assemblyscript": {"*.ts", "asconfig.json", "package.json"},
}

// Sources returns the folders and files that a build may read, except for the kit and hidden files, so that they can be
// watched. Files that a build writes, documentation, vectors and configurations are none.
func (p *Project) Sources() (paths []string, err error) {
	skip := []string{p.Vectors(), filepath.Join(p.Dir, p.sdk), filepath.Join(p.Dir, "node_modules"), filepath.Join(p.Dir, "testdata")}
	patterns := append([]string{OptionsFile}, sourceFiles[p.Language]...)
	var embedded []string
	err = filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") && path != p.Dir
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || slices.Contains(skip, path)):
			return fs.SkipDir
		case d.IsDir() || !hidden && slices.ContainsFunc(patterns, func(pattern string) bool { ok, _ := filepath.Match(pattern, d.Name()); return ok }):
			paths = append(paths, path)
		}
		if filepath.Ext(path) == ".go" {
			embedded = append(embedded, embeddedFiles(path)...)
		}
		return nil
	})
	for _, path := range embedded {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, err
}

// embeddedFiles returns the files that a Go file embeds, as far as its patterns name files.
func embeddedFiles(source string) (paths []string) {
	text, _ := os.ReadFile(source) // a file that was removed meanwhile embeds nothing
	for line := range strings.Lines(string(text)) {
		patterns, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:embed ")
		if !ok {
			continue
		}
		for _, pattern := range strings.Fields(patterns) {
			found, _ := filepath.Glob(filepath.Join(filepath.Dir(source), strings.Trim(pattern, "\"`")))
			paths = append(paths, found...)
		}
	}
	return paths
}

// Vectors returns the folder of the plugin's vectors, which may not exist.
func (p *Project) Vectors() string {
	if filepath.IsAbs(p.vectors) {
		return p.vectors
	}
	return filepath.Join(p.Dir, p.vectors)
}

// manifestError adds the line in plugin.toml to an error of the TOML decoder.
func manifestError(path string, err error) error {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var errs []error
		for _, e := range strict.Errors {
			line, _ := e.Position()
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %s", path, line, strings.Join(e.Key(), ".")))
		}
		return errors.Join(errs...)
	}
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := e.Position()
		return fmt.Errorf("%s:%d: %s", path, line, strings.TrimPrefix(e.Error(), "toml: "))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// checkName checks a plugin's name, which becomes a table of gateway.toml and a folder.
func checkName(s string) error {
	ok := s != "" && len(s) <= 64
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && (c == '_' || c == '-'))
	}
	if !ok {
		return fmt.Errorf("invalid name %q: want 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit", s)
	}
	return nil
}

func oneOf(what, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	last := len(known) - 1
	return fmt.Errorf("invalid %s %q: want %s or %s", what, value, strings.Join(known[:last], ", "), known[last])
}
