package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

// pluginFlags are the flags shared by the commands that run a plugin without a gateway.
type pluginFlags struct {
	plugin, vectors string
}

func (f *pluginFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.plugin, "plugin", "", "`name` of the plugin, if the module contains several")
	c.Flags().StringVar(&f.vectors, "vectors", "", "`directory` of the vectors; testdata/vectors next to the module by default")
}

// subject is the plugin that a command runs or describes, with its vectors.
type subject struct {
	module plugindev.Module
	file   string // path of the module; "" for a bundled plugin
	suite  *plugindev.Suite

	project *project.Project // the project that the module was built from; nil if it was not opened by its folder
}

// open reads the plugin that an argument names, which is a module's file, a folder of a plugin or of recorded vectors,
// or the name of a bundled plugin.
func (f *pluginFlags) open(c *cobra.Command, argument string) (*subject, error) {
	info, err := os.Stat(argument)
	switch {
	case err == nil && info.IsDir():
		return f.openFolder(c, argument)
	case err == nil:
		if p, err := project.Load(filepath.Dir(argument)); err == nil && filepath.Base(argument) == filepath.Base(p.Module()) {
			return f.openProject(p.Dir)
		}
		return f.openFile(argument, cmp.Or(f.vectors, filepath.Join(filepath.Dir(argument), "testdata", "vectors")))
	case errors.Is(err, fs.ErrNotExist) && slices.Contains(plugins.Names(), argument):
		return f.openBundled(argument, f.vectors)
	}
	return nil, err
}

// openFolder reads the folder of a plugin, or a folder of vectors whose suite names the plugin.
func (f *pluginFlags) openFolder(c *cobra.Command, dir string) (*subject, error) {
	if _, err := os.Stat(filepath.Join(dir, project.ManifestFile)); err == nil {
		return f.openProject(dir)
	}
	suite, err := plugindev.OpenSuite(cmp.Or(f.vectors, dir))
	if err != nil {
		return nil, err
	}
	switch {
	case suite.Module != "":
		return f.openFile(filepath.Join(dir, suite.Module), dir)
	case slices.Contains(plugins.Names(), suite.Plugin):
		return f.openBundled(suite.Plugin, dir)
	}
	return nil, newUsageError(c, "%s has no %s and no module: name a plugin's file, or its folder", dir, plugindev.SuiteFile)
}

// openProject reads the module that `sluice plugin build` built in a plugin's folder. The plugin has the project's
// name.
func (f *pluginFlags) openProject(dir string) (*subject, error) {
	p, err := project.Load(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(p.Module()); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: run `sluice plugin build` first", p.Module())
	}
	s, err := f.openFile(p.Module(), cmp.Or(f.vectors, p.Vectors()))
	if err != nil {
		return nil, err
	}
	s.module.Name, s.project = cmp.Or(f.plugin, p.Name), p
	return s, nil
}

func (f *pluginFlags) openFile(file, vectors string) (*subject, error) {
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := proxy.CheckModuleFile(file, wasm); err != nil {
		return nil, invalidPlugin(err)
	}
	s := &subject{file: file}
	if s.suite, err = openVectors(vectors); err != nil {
		return nil, err
	}
	stem, _, _ := strings.Cut(filepath.Base(file), ".")
	s.module = plugindev.Module{Name: cmp.Or(f.plugin, s.suite.Plugin, stem), Wasm: wasm}
	return s, nil
}

// openBundled reads a bundled plugin. If its vectors have no settings, it is used as its preset in the configuration
// says.
func (f *pluginFlags) openBundled(name, vectors string) (*subject, error) {
	module, err := bundledModule(name)
	if err != nil {
		return nil, err
	}
	s := &subject{module: module}
	if s.suite, err = openVectors(vectors); err != nil {
		return nil, err
	}
	if s.suite.Use.Paths == nil && s.suite.Use.Settings == "" {
		s.suite.Use, err = presetUse(name)
	}
	return s, err
}

// bundledModule reads the module of a bundled plugin.
func bundledModule(name string) (plugindev.Module, error) {
	wasm, err := fs.ReadFile(plugins.FS(), "all.wasm")
	if err != nil {
		err = &proxy.NoPluginError{Plugin: name}
	}
	return plugindev.Module{Name: name, Wasm: wasm}, err
}

// openVectors reads the vectors in a folder. If dir is empty or does not exist, the suite has no vectors.
func openVectors(dir string) (*plugindev.Suite, error) {
	if dir == "" {
		return &plugindev.Suite{}, nil
	}
	s, err := plugindev.OpenSuite(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &plugindev.Suite{Dir: dir}, nil
	}
	return s, err
}

// presetUse returns how a bundled provider is used if the configuration has only its plugin and base_url.
func presetUse(plugin string) (plugindev.Use, error) {
	text := fmt.Sprintf("[providers.preset]\nplugin = %q\nbase_url = \"https://provider.example\"\n", plugin)
	cfg, err := config.Parse("preset", []byte(text), config.Options{Bundled: plugins.Names()})
	if err != nil {
		return plugindev.Use{}, nil // not a provider, or one without a base_url
	}
	p := cfg.Provider("preset")
	return plugindev.Use{Settings: string(p.Options), Paths: p.Paths, Headers: p.Headers}, nil
}

// invalidPlugin wraps an error of a plugin so that the process ends with exitInvalid.
func invalidPlugin(err error) error { return &proxy.BuildError{Err: err} }

// printLog prints what plugins have logged and printed, each different line once.
func printLog(w io.Writer, h *plugindev.Host) {
	for _, line := range h.TakeLog() {
		fmt.Fprintf(w, "log: %s\n", line)
	}
}

// host starts a plugin host. The caller must call closed when it is done with it.
func (o *options) host() (h *plugindev.Host, closed func(), err error) {
	e, err := plugindev.NewEngine(o.cache)
	if err != nil {
		return nil, nil, err
	}
	h, err = plugindev.NewHost(plugindev.Options{Engine: e})
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return h, func() { h.Close(); e.Close() }, nil
}
