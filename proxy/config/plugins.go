package config

import (
	"slices"
	"strings"
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
			t.fail(t.look("file"), "file", "%q is the name of a bundled plugin; choose another name for the file", e.name)
			t.look("sha256")
		case bundled:
		default:
			p.File, p.SHA256 = l.pluginFile(t)
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

func (l *loader) pluginFile(t *table) (file, sum string) {
	file, n := t.required("file")
	at := n
	if n == nil {
		t.look("sha256")
		return "", ""
	}
	sum, n = t.required("sha256")
	if n != nil && !hexDigest(sum) {
		t.fail(n, "sha256", "must be 64 hexadecimal digits")
	}
	return l.relative(at, file), strings.ToLower(sum)
}

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

// pluginNamed returns the plugin called name, which the key member with the value n refers to; shown is the name in errors.
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
