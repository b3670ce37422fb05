package project

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	sdkModule = "github.com/sluice-gateway/sluice/sdk"
	goVersion = "1.26" // Go version of the SDK, the same as the repository's

	kitDir = "sdk"
	// sumFile lists the kit's files with their SHA-256 in the format of sha256sum, below a comment with the kit's
	// version.
	sumFile = "KIT"
)

// inKit reports whether a file below sdk is part of a language's kit. The description of the ABI is part of each.
func inKit(language, name string) bool {
	if name == "abi/README.md" || name == "abi/sluice.wit" {
		return true
	}
	folder, _, _ := strings.Cut(name, "/")
	if slices.Contains(Languages, folder) {
		return folder == language
	}
	return language == "go" && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/kit/")
}

// kitFiles returns the files of a language's kit, by their paths in the folder of a plugin.
func kitFiles(language, version string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := copyFiles(files, kitDir, kitDir, func(name string, text []byte) []byte {
		if !inKit(language, strings.TrimPrefix(name, kitDir+"/")) {
			return nil
		}
		return text
	})
	if err == nil {
		files[kitDir+"/LICENSE"], err = sluice.Files.ReadFile("LICENSE")
	}
	if err != nil {
		return nil, err
	}
	if language == "go" {
		files[kitDir+"/go.mod"] = []byte("module " + sdkModule + "\n\ngo " + goVersion + "\n")
	}
	var sums bytes.Buffer
	fmt.Fprintf(&sums, "# %s. `sluice plugin upgrade` replaces these files.\n", kitVersion(version))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[name]), strings.TrimPrefix(name, kitDir+"/"))
	}
	files[kitDir+"/"+sumFile] = sums.Bytes()
	return files, nil
}

// kitVersion describes a kit, in the first line of its sumFile.
func kitVersion(version string) string {
	return fmt.Sprintf("the kit of sluice %s, plugin ABI %d.%d", version, abi.Major, abi.Minor)
}

// ChangedError reports files of a kit that the author has changed.
type ChangedError struct {
	Dir   string // folder of the kit
	Files []string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was changed: %s; keep your own code outside of it, or overwrite the changes with --force", e.Dir, strings.Join(e.Files, ", "))
}

// Upgrade replaces the folder's kit with the kit of this binary, and returns the versions of both. If the author has
// changed files of the kit, it returns a *ChangedError unless force is set.
func (p *Project) Upgrade(version string, force bool) (from, to string, err error) {
	dir := filepath.Join(p.Dir, p.sdk)
	from, old, err := readSums(filepath.Join(dir, sumFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("%s has no file %s, so it is not a kit that `sluice plugin new` wrote", dir, sumFile)
	}
	if err != nil {
		return "", "", err
	}
	changed, err := changedFiles(dir, old)
	if err != nil {
		return "", "", err
	}
	if len(changed) > 0 && !force {
		return "", "", &ChangedError{dir, changed}
	}
	files, err := kitFiles(p.Language, version)
	if err != nil {
		return "", "", err
	}
	for name := range old {
		if _, kept := files[kitDir+"/"+name]; kept {
			continue
		}
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
	}
	kit := make(map[string][]byte, len(files))
	for name, text := range files {
		kit[strings.TrimPrefix(name, kitDir+"/")] = text
	}
	return from, kitVersion(version), write(dir, kit)
}

// readSums reads a kit's sumFile: the kit's version, and the digests by file.
func readSums(file string) (version string, sums map[string]string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	sums = map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if line, ok := strings.CutPrefix(s.Text(), "# "); ok {
			version, _, _ = strings.Cut(line, ". `")
			continue
		}
		sum, name, ok := strings.Cut(s.Text(), "  ")
		if !ok || !filepath.IsLocal(filepath.FromSlash(name)) {
			return "", nil, fmt.Errorf("%s: invalid line %q", file, s.Text())
		}
		sums[name] = sum
	}
	return version, sums, nil
}

// changedFiles returns the files of a kit whose digests differ from sums, sorted by name. Deleted files do not count.
func changedFiles(dir string, sums map[string]string) (changed []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(text); sums[name] != hex.EncodeToString(sum[:]) {
			changed = append(changed, name)
		}
	}
	return changed, nil
}
