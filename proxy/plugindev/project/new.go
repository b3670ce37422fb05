package project

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice"
)

// Template selects the contents of a new folder.
type Template struct {
	Name     string // name of the plugin
	Language string
	Kind     string
	Version  string // version of the gateway, for the kit
}

const examples = "examples/plugins"

// New writes the folder of a new plugin, which must be empty or not exist. The plugin builds, and its vectors pass.
func New(dir string, t Template) error {
	if err := errors.Join(checkName(t.Name), oneOf("language", t.Language, Languages), oneOf("kind", t.Kind, Kinds)); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s exists and is not empty: choose another name, or another folder with --dir", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	files, err := t.files()
	if err != nil {
		return err
	}
	return write(dir, files)
}

// files returns the contents of a new folder, by path.
func (t Template) files() (map[string][]byte, error) {
	example := t.Language + "-" + t.Kind
	files, err := kitFiles(t.Language, t.Version)
	if err != nil {
		return nil, err
	}
	// An example contains its folder's name, and paths relative to its place in the repository.
	local := strings.NewReplacer("../../../sdk", "./sdk", "../testdata/"+t.Kind, "testdata/vectors", example, t.Name)
	err = copyFiles(files, path.Join(examples, example), "", func(name string, text []byte) []byte {
		if strings.HasSuffix(name, "_test.go") {
			return nil // needs the repository
		}
		return []byte(local.Replace(string(text)))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no template for a %s in %s", t.Kind, t.Language)
	}
	if err != nil {
		return nil, err
	}
	if err := copyFiles(files, path.Join(examples, "testdata", t.Kind), "testdata/vectors", nil); err != nil {
		return nil, err
	}
	files[".gitignore"] = []byte("/plugin.wasm\n/node_modules/\n")
	if t.Language == "go" {
		files["go.mod"] = []byte("module " + t.Name + "\n\ngo " + goVersion + "\n\nrequire " + sdkModule + " v0.0.0\n\nreplace " + sdkModule + " => ./sdk\n")
	}
	return files, nil
}

// copyFiles adds the files below the folder from of the repository to files, below the folder to. edit may change their
// text; if it returns nil, the file is left out. edit may be nil.
func copyFiles(files map[string][]byte, from, to string, edit func(name string, text []byte) []byte) error {
	return fs.WalkDir(sluice.Files, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sluice.Files.ReadFile(name)
		if err == nil && edit != nil {
			text = edit(name, text)
		}
		if text != nil {
			files[path.Join(to, strings.TrimPrefix(name, from+"/"))] = text
		}
		return err
	})
}

// write writes files below a folder, and creates the folders that they need.
func write(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name], 0o666); err != nil {
			return err
		}
	}
	return nil
}
