package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// pluginTables reads [plugins]: plugin files, and defaults of bundled plugins.
func (l *loader) pluginTables(t table) {
	for _, e := range t.entries() {
		t := &e.table
		p := Plugin{Name: e.name, Pos: t.position()}
		bundled := slices.Contains(l.o.Bundled, e.name)
		isolation := []string{IsolationKey, IsolationShared, IsolationCall}
		if bundled {
			isolation[0], isolation[1] = isolation[1], isolation[0]
		}
		switch {
		case bundled && t.has("file"):
			t.fail(t.lookUp("file"), "file", "%q is the name of a bundled plugin; choose another name for the file", e.name)
			t.lookUp("sha256")
		case bundled:
		default:
			l.pluginFile(t, &p)
		}
		p.Isolation = t.choice("isolation", isolation...)
		p.MemoryPages = uint32((t.size("memory", 0, 1<<20, 1<<32) + pageSize - 1) / pageSize)
		options := t.table("options")
		l.pluginOptions[e.name] = options.free()
		l.checkLater(t, "options", e.name, false)
		t.finish()
		l.addPlugin(p)
	}
}

const pageSize = 64 << 10

func (l *loader) addPlugin(p Plugin) {
	l.plugins[p.Name] = len(l.cfg.Plugins)
	l.cfg.Plugins = append(l.cfg.Plugins, p)
}

func (l *loader) pluginFile(t *table, p *Plugin) {
	file, n := t.required("file")
	at := n
	if n == nil {
		t.lookUp("sha256")
		return
	}
	if oci.IsReference(file) {
		l.pluginReference(t, at, p)
		return
	}
	p.File = l.relative(at, file)
	sum, n := t.text("sha256")
	switch {
	case n == nil && t.has("sha256"): // of the wrong type, and already reported
	case n == nil && (l.o.Dev || l.o.Unpinned):
		p.Unpinned, p.SHA256 = true, fileDigest(p.File)
	case n == nil:
		t.fail(nil, "sha256", "is missing%s", digestLine(p.File))
	case !hexDigest(sum):
		t.fail(n, "sha256", "must be 64 hexadecimal digits%s", digestLine(p.File))
	default:
		p.SHA256 = strings.ToLower(sum)
	}
}

// digestLine returns the configuration line with the digest of a plugin's file, to be appended to an error, or "" if
// the file cannot be read.
func digestLine(file string) string {
	sum := fileDigest(file)
	if sum == "" {
		return ""
	}
	return fmt.Sprintf("; for %s as it is: sha256 = %q", file, sum)
}

// fileDigest returns the SHA-256 of a plugin's file, or "" if it cannot be read.
func fileDigest(file string) string {
	is, err := os.Stat(file)
	if err != nil || !is.Mode().IsRegular() || is.Size() > maxModule {
		return ""
	}
	module, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(module))
}

// maxModule limits the size of a file that is read to compute its digest, in bytes.
const maxModule = 64 << 20

func hexDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// pluginName reads the key plugin, and adds a bundled plugin on first use.
func (l *loader) pluginName(t *table) string {
	name, n := t.required("plugin")
	if n == nil {
		return ""
	}
	return l.pluginNamed(t, n, "plugin", name, show(n))
}

// pluginNamed checks the name of a plugin and returns it, or "" if there is no such plugin. A bundled plugin is added
// on first use. n is the value of the key member, for the error's position, and shown is the name in errors.
func (l *loader) pluginNamed(t *table, n *node, member, name, shown string) string {
	if _, ok := l.plugins[name]; !ok {
		if !slices.Contains(l.o.Bundled, name) {
			known := slices.Clone(l.o.Bundled)
			for _, p := range l.cfg.Plugins {
				known = append(known, p.Name)
			}
			t.fail(n, member, "unknown plugin %s%s; declare files in [plugins.NAME]", shown, suggest(name, known))
			return ""
		}
		l.addPlugin(Plugin{Name: name, Isolation: IsolationShared})
	}
	return name
}

func (l *loader) use(plugin string) {
	if i, ok := l.plugins[plugin]; ok {
		l.cfg.Plugins[i].InUse = true
	}
}
