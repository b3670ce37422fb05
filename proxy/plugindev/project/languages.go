package project

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// compilers are the functions that compile a plugin to a file, by language. They return the name and version of the
// compiler.
var compilers = map[string]func(b *Builder, ctx context.Context, p *Project, out string) (compiler string, err error){
	"go": (*Builder).compileGo, "rust": (*Builder).compileRust, "c": (*Builder).compileC, "assemblyscript": (*Builder).compileAssemblyScript,
}

func errNoGo() error {
	return &MissingError{Tool: "Go", Get: []string{"apt-get install golang-go", "https://go.dev/doc/install"}}
}

func (b *Builder) compileGo(ctx context.Context, p *Project, out string) (string, error) {
	found := b.find("go")
	if len(found) == 0 {
		return "", errNoGo()
	}
	version, err := b.print(ctx, p, found[0], "version")
	if err != nil {
		return "", err
	}
	err = b.compile(ctx, p, found[0], "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, ".")
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "go version "), " ")
	return version, err
}

// stackSize leaves most of an instance's first page of memory to its data. A stack overflow ends the call.
const stackSize = "-zstack-size=16384"

// rustTarget is the target for plugins in Rust. The kit does not need WASI.
const rustTarget = "wasm32-unknown-unknown"

func (b *Builder) compileRust(ctx context.Context, p *Project, out string) (string, error) {
	var without []string // compilers without the target, with the reason
	for _, rustc := range b.find("rustc") {
		version, err := b.print(ctx, p, rustc, "--version")
		if err != nil {
			without = append(without, err.Error())
			continue
		}
		root, err := b.print(ctx, p, rustc, "--print", "sysroot")
		if err != nil {
			without = append(without, err.Error())
			continue
		}
		if core, _ := filepath.Glob(filepath.Join(root, "lib", "rustlib", rustTarget, "lib", "libcore-*.rlib")); len(core) == 0 {
			without = append(without, rustc+" ("+version+") lacks it")
			continue
		}
		return version, b.runRustc(ctx, p, rustc, root, out)
	}
	return "", &MissingError{
		Tool: "a Rust compiler with the target " + rustTarget, Found: without,
		Get: []string{"apt-get install rustc libstd-rust-dev-wasm32", "rustup target add " + rustTarget},
	}
}

// runRustc compiles the kit, and then the plugin with it.
func (b *Builder) runRustc(ctx context.Context, p *Project, rustc, root, out string) error {
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return err
	}
	flags := []string{
		"--edition", "2021", "--target", rustTarget, "-C", "opt-level=s", "-C", "panic=abort", "-C", "codegen-units=1",
		"--remap-path-prefix", dir + "=.", "--remap-path-prefix", root + "=/rust", "--remap-path-prefix", p.sdk + "=sdk",
	}
	kit := filepath.Join(filepath.Dir(out), "libsluice.rlib")
	if err := b.compile(ctx, p, rustc, append(slices.Clone(flags), "--crate-type", "rlib", "--crate-name", "sluice", "-o", kit, filepath.Join(p.sdk, "rust", "src", "lib.rs"))...); err != nil {
		return err
	}
	return b.compile(ctx, p, rustc, append(slices.Clone(flags), "--crate-type", "cdylib", "--crate-name", "plugin", "--extern", "sluice="+kit,
		"-C", "lto", "-C", "strip=debuginfo", "-C", "link-arg="+stackSize, "-o", out, "plugin.rs")...)
}

func (b *Builder) compileC(ctx context.Context, p *Project, out string) (string, error) {
	var without []string
	for _, clang := range b.findVersions("clang") {
		version, err := b.print(ctx, p, clang, "--version")
		if err != nil {
			without = append(without, err.Error())
			continue
		}
		version, _, _ = strings.Cut(version, "\n")
		if targets, err := b.print(ctx, p, clang, "--print-targets"); err != nil || !strings.Contains(targets, "wasm32") {
			without = append(without, clang+" ("+version+") lacks the target wasm32")
			continue
		}
		// Prefer the linker that belongs to this clang.
		linker, err := b.print(ctx, p, clang, "--print-prog-name=wasm-ld")
		if err != nil || !filepath.IsAbs(linker) {
			linkers := b.findVersions("wasm-ld")
			if len(linkers) == 0 {
				return "", &MissingError{Tool: "wasm-ld, the linker for " + clang + ",", Get: []string{"apt-get install lld", "brew install lld"}}
			}
			linker = linkers[0]
		}
		return version, b.runClang(ctx, p, clang, linker, out)
	}
	return "", &MissingError{Tool: "clang for WebAssembly", Found: without, Get: []string{"apt-get install clang lld", "brew install llvm lld"}}
}

// runClang compiles and links the C files of the folder.
func (b *Builder) runClang(ctx context.Context, p *Project, clang, linker, out string) error {
	sources, err := filepath.Glob(filepath.Join(p.Dir, "*.c"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("%s has no file *.c", p.Dir)
	}
	target, link := []string{"--target=wasm32", "-ffreestanding"}, []string{"-nostdlib", "-Wl,--no-entry"}
	if p.libc {
		if found, _ := filepath.Glob("/usr/include/wasm32-wasi/stdio.h"); len(found) == 0 {
			return &MissingError{Tool: "wasi-libc, for libc = true in " + ManifestFile, Get: []string{"apt-get install wasi-libc"}}
		}
		target, link = []string{"--target=wasm32-wasi"}, []string{"-mexec-model=reactor", "-nodefaultlibs", "-lc"}
	}
	var objects []string
	for i, source := range sources {
		objects = append(objects, filepath.Join(filepath.Dir(out), strconv.Itoa(i)+".o"))
		args := append(slices.Clone(target), "-O2", "-Wall", "-Wextra", "-I", filepath.Join(p.sdk, "c"), "-c", "-o", objects[i], filepath.Base(source))
		if err := b.compile(ctx, p, clang, args...); err != nil {
			return err
		}
	}
	// No -O: it would make clang run a wasm-opt from PATH.
	args := slices.Concat(target, objects, link, []string{"-fuse-ld=" + linker, "-Wl,--strip-debug,--stack-first," + stackSize, "-o", out})
	return b.compile(ctx, p, clang, args...)
}

func (b *Builder) compileAssemblyScript(ctx context.Context, p *Project, out string) (string, error) {
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return "", err
	}
	var packages []string // node_modules of the folder and of its parents, as node looks up packages
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		packages = append(packages, filepath.Join(dir, "node_modules", ".bin"))
	}
	found := append(findIn("asc", packages), b.find("asc")...)
	switch {
	case len(b.find("node")) == 0:
		return "", &MissingError{Tool: "Node, which runs the compiler of AssemblyScript,", Get: []string{"apt-get install nodejs npm", "https://nodejs.org"}}
	case len(found) == 0:
		return "", &MissingError{Tool: "asc, the compiler of AssemblyScript,", Get: []string{"npm install assemblyscript", "npm install --global assemblyscript"}}
	}
	version, err := b.print(ctx, p, found[0], "--version")
	if err != nil {
		return "", err
	}
	return "asc " + strings.TrimPrefix(version, "Version "), b.compile(ctx, p, found[0], "plugin.ts", "-o", out, "--optimizeLevel", "3", "--shrinkLevel", "1", "--debug", "--runtime", "minimal", "--exportStart", "_initialize", "--noColors")
}
