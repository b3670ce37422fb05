package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// serveFile is what a plugin's program is built with to run as native code: it serves the plugin instead of running main. Functions
// init run in the order of the files' names, so that the plugin has been registered before.
const (
	serveFile   = "zzzzzzzz_sluice_serve.go"
	serveSource = "package main\n\nimport \"" + sdkModule + "/native\"\n\nfunc init() { native.ServeParent() }\n"
)

// ErrOldKit is the error of BuildNative if the folder's kit cannot serve a plugin.
var ErrOldKit = errors.New("the kit in sdk is too old: run `sluice plugin upgrade`")

// BuildNative compiles a plugin in Go to a program of this machine's, for plugindev.Native. Nothing is written to the plugin's
// folder. With debug the program is compiled for a debugger.
func (b *Builder) BuildNative(ctx context.Context, p *Project, program string, debug bool) error {
	sdk, err := filepath.Abs(filepath.Join(p.Dir, p.sdk, "native", "serve.go"))
	if filepath.IsAbs(p.sdk) {
		sdk = filepath.Join(p.sdk, "native", "serve.go")
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(sdk); errors.Is(err, fs.ErrNotExist) {
		return ErrOldKit
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return err
	}
	// The file exists only for the compiler.
	source, overlay := program+".go", program+".json"
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(dir, serveFile): source}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(source, []byte(serveSource), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return err
	}
	found := b.find("go")
	if len(found) == 0 {
		return errNoGo()
	}
	args := []string{"build", "-buildvcs=false", "-overlay", overlay, "-o", program}
	if debug {
		args = append(args, "-gcflags=all=-N -l")
	}
	host := *b
	host.target = []string{"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}
	if err := host.compile(ctx, p, found[0], append(slices.Clone(args), ".")...); err != nil {
		return fmt.Errorf("build %s as native code: %w", p.Name, err)
	}
	return nil
}
