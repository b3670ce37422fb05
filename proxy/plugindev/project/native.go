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

// serveFile is a file that is added to a plugin's program to run it as native code. Its init function serves the plugin
// instead of running main. Since init functions run in the order of file names, the plugin's own have already
// registered it.
const (
	serveFile   = "zzzzzzzz_sluice_serve.go"
	serveSource = "package main\n\nimport \"" + sdkModule + "/native\"\n\nfunc init() { native.ServeParent() }\n"
)

// ErrOldKit is the error of BuildNative if the folder's kit cannot serve a plugin.
var ErrOldKit = errors.New("the kit in sdk is too old: run `sluice plugin upgrade`")

// BuildNative compiles a Go plugin to a program for this machine, for plugindev.Native. It writes nothing to the
// plugin's folder. With debug, optimizations are disabled for a debugger.
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
	// An overlay shows the file to the compiler without writing it to the folder.
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
