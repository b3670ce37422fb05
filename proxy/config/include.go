package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// includeKey is the key in the main file that lists the files to include.
const includeKey = "include"

// maxIncluded limits the number of included files.
const maxIncluded = 1000

// source is one of the files of a configuration. Its offsets start at base, so that an offset also identifies the file.
type source struct {
	file  string
	base  int
	data  []byte
	lines []int // offset in data of each line; computed when first needed
}

// begin adds a source and makes it the current one.
func (d *document) begin(file string, data []byte) {
	base := 0
	if n := len(d.sources); n > 0 {
		last := d.sources[n-1]
		base = last.base + len(last.data) + 1 // plus one, since the end of a file has an offset of its own
	}
	d.sources = append(d.sources, &source{file: file, base: base, data: data})
	d.source = d.sources[len(d.sources)-1]
}

// digest returns the SHA-256 of all files, one after another.
func (d *document) digest() string {
	h := sha256.New()
	for _, s := range d.sources {
		h.Write(s.data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sourceOf returns the file that contains an offset.
func (d *document) sourceOf(offset int) *source {
	i, exact := slices.BinarySearchFunc(d.sources, offset, func(s *source, offset int) int { return s.base - offset })
	if !exact {
		i--
	}
	return d.sources[max(0, i)]
}

// readTree reads the main file and the files that it includes, and merges them. complete is false after a syntax error
// in one of them. opening is called with each file and folder before it is read.
func (d *document) readTree(data []byte, opening func(string)) (root *node, complete bool) {
	d.begin(d.file, bytes.TrimPrefix(data, []byte("\ufeff")))
	root, complete = d.read()
	m := root.member(includeKey)
	if m == nil {
		d.reportUnset()
		return root, complete
	}
	t := table{d: d, n: root, path: &keyPath{}}
	var merged *node
	for _, file := range d.included(&t, opening) {
		d.begin(file.name, bytes.TrimPrefix(file.data, []byte("\ufeff")))
		tree, ok := d.read()
		complete = complete && ok
		if n := tree.member(includeKey); n != nil {
			d.fail(int(n.offset), includeKey, "only the main file can include others")
			n.known = true
		}
		if merged == nil {
			merged = tree
		} else {
			d.merge(merged, tree, &keyPath{})
		}
	}
	if merged != nil {
		d.merge(merged, root, &keyPath{})
		root = merged
	}
	d.reportUnset()
	return root, complete
}

// includedFile is a file to include, with its contents.
type includedFile struct {
	name string
	data []byte
}

// included returns the files that the main file includes, in the order in which they are merged. A pattern stands for
// the matching files, sorted by name. Files that cannot be read are reported.
func (d *document) included(t *table, opening func(string)) (files []includedFile) {
	elements, _ := t.strings(includeKey)
	for _, e := range elements {
		names := []string{resolve(d.file, e.text)}
		if strings.ContainsAny(e.text, "*?[") {
			dir, pattern := filepath.Split(names[0])
			if strings.ContainsAny(dir, "*?[") {
				t.fail(e, includeKey, "%s: only the name of the file can be a pattern, not its folder", show(e))
				continue
			}
			opening(filepath.Clean(dir))
			d.folders = append(d.folders, filepath.Clean(dir))
			var err error
			if names, err = matchFiles(filepath.Clean(dir), pattern); err != nil {
				t.fail(e, includeKey, "%s: %v", show(e), err)
			}
		}
		for _, name := range names {
			if name == d.file || slices.Contains(d.files, name) {
				t.fail(e, includeKey, "%s is already included", name)
				continue
			}
			if len(d.files) == maxIncluded {
				t.fail(e, includeKey, "more than %d files are included", maxIncluded)
				return files
			}
			opening(name)
			d.files = append(d.files, name)
			data, err := readFile(name)
			if err != nil {
				t.fail(e, includeKey, "%v", err)
				continue
			}
			files = append(files, includedFile{name, data})
		}
	}
	return files
}

// matchFiles returns the files in a folder that match a pattern, sorted by name. Hidden files, as which editors and
// Kubernetes keep copies, match only patterns that begin with a dot.
func matchFiles(dir, pattern string) (names []string, err error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, invalid("is not a valid pattern")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(pattern, ".")
		if ok, _ := filepath.Match(pattern, e.Name()); ok && !hidden && !e.IsDir() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// resolve resolves a relative path against the folder of the file that contains it.
func resolve(file, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}

// merge merges top, a table of a later file, into base, the same table of earlier files. Values in top replace those in
// base, except that tables are merged key by key, and [[teams]], [[keys]] and [[models]] by name.
func (d *document) merge(base, top *node, where *keyPath) {
	base.offset = top.offset
	for i := range top.names {
		m := &top.names[i]
		b := base.member(m.name)
		if where.up == nil && m.name == includeKey {
			continue
		}
		if b == nil {
			d.add(base, m.name, int(m.offset), m.value)
			continue
		}
		path := where.child(m.name)
		b.offset = m.offset
		switch {
		case b.value.kind == kindTable && m.value.kind == kindTable && !replaces(b.value, m.value, &path):
			d.merge(b.value, m.value, &path)
		case b.value.kind == kindArray && m.value.kind == kindArray && entryNames[path.String()] != "":
			d.mergeEntries(b.value, m.value, entryNames[path.String()], &path)
		default:
			d.dropUnset(b.value)
			b.value = m.value
		}
	}
}

// entryNames maps arrays of tables to the key that identifies an entry.
var entryNames = map[string]string{"teams": "name", "keys": "name", "models": "id"}

// replaces reports whether a table replaces an earlier one as a whole. That is the case for a credential, which counts
// as one value, and for a provider or router with another plugin.
func replaces(base, top *node, where *keyPath) bool {
	switch where.pattern() {
	case "providers.*.auth", "registries.*.auth":
		return true
	case "providers.*", "router":
		for _, key := range []string{"plugin", "preset"} {
			b, t := base.member(key), top.member(key)
			if b != nil && t != nil && b.value.text != t.value.text {
				return true
			}
		}
	}
	return false
}

// mergeEntries merges an array of named tables. Entries without a name, and duplicates within a file, are appended; the
// loader reports them as errors later.
func (d *document) mergeEntries(base, top *node, key string, where *keyPath) {
	nameOf := func(n *node) string {
		if n.kind != kindTable {
			return ""
		}
		if m := n.member(key); m != nil && m.value.kind == kindString {
			return m.value.text
		}
		return ""
	}
	byName := make(map[string]*node, len(base.items))
	for _, n := range base.items {
		if name := nameOf(n); name != "" {
			byName[name] = n
		}
	}
	for _, n := range top.items {
		b := byName[nameOf(n)]
		if b == nil {
			base.items = append(base.items, n)
			continue
		}
		delete(byName, nameOf(n))
		if where.name == "keys" && (n.member("secret") != nil || n.member("digest") != nil) {
			d.remove(b, "secret")
			d.remove(b, "digest")
		}
		element := where.element(0)
		d.merge(b, n, &element)
	}
}

// remove removes a key from a table.
func (d *document) remove(n *node, name string) {
	n.names = slices.DeleteFunc(n.names, func(m member) bool {
		if m.name == name {
			d.dropUnset(m.value)
		}
		return m.name == name
	})
	if n.rare != nil {
		n.rare.index = nil
	}
}

// unsetVariable is an error about a variable in a value. It is dropped if a later file replaces the value.
type unsetVariable struct {
	n *node
	e Error
}

// dropUnset drops the errors about variables in a value that is replaced.
func (d *document) dropUnset(n *node) {
	d.unset = slices.DeleteFunc(d.unset, func(u unsetVariable) bool { return u.n == n })
	for _, e := range n.items {
		d.dropUnset(e)
	}
	for _, m := range n.names {
		d.dropUnset(m.value)
	}
}

// reportUnset reports the errors about variables that are left after merging all files.
func (d *document) reportUnset() {
	for _, u := range d.unset {
		if !d.pluginsOnly || concernsPlugins(u.e.Key) {
			d.errs = append(d.errs, u.e)
		}
	}
	d.unset = nil
}

// concernsPlugins reports whether Options.PluginsOnly needs the value of a key.
func concernsPlugins(key string) bool {
	return key == includeKey || key == "server.cache_dir" || strings.HasPrefix(key, "plugins.") && !strings.Contains(key, ".options.")
}

// readFile reads a configuration file.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readAll(f)
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	return data, err
}
