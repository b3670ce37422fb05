package modules

import (
	"bytes"
	"fmt"
)

// CheckFile returns an error if the contents of a file are not a WebAssembly module. The error says what they are
// instead.
func CheckFile(name string, contents []byte) error {
	if problem := describeOther(contents); problem != "" {
		return fmt.Errorf("%s %s", name, problem)
	}
	return nil
}

// describeOther recognizes a file that is not a WebAssembly module by its first bytes. It returns what the file is and
// what to do, or "" if it may be a module.
func describeOther(contents []byte) string {
	const magic, version, build = "\x00asm", "\x01\x00\x00\x00", "build it for WebAssembly, in Go with GOOS=wasip1 GOARCH=wasm"
	if len(contents) == 0 {
		return "is empty: the build failed or has not finished"
	}
	// Text formats may begin with white space.
	text := bytes.TrimSpace(contents[:min(len(contents), maxDescribed)])
	for _, format := range []struct{ prefix, description string }{
		{magic + version, ""},
		{magic + "\x0d\x00\x01\x00", "is a WebAssembly component: build a core module, Rust with --target wasm32-unknown-unknown or wasm32-wasip1"},
		{magic, "is a WebAssembly module of another version: build a core module of version 1"},
		{"(", "is WebAssembly text: convert it to a binary module with wat2wasm"},
		{";;", "is WebAssembly text: convert it to a binary module with wat2wasm"},
		{"\x1f\x8b", "is compressed with gzip: decompress it with gunzip"},
		{"\x28\xb5\x2f\xfd", "is compressed with Zstandard: decompress it with unzstd"},
		{"PK\x03\x04", "is a zip file: unpack it"},
		{"\x7fELF", "is a program for Linux: " + build},
		{"\xcf\xfa\xed\xfe", "is a program for macOS: " + build},
		{"MZ", "is a program for Windows: " + build},
		{"BC\xc0\xde", "is LLVM bitcode: link it with wasm-ld"},
		{"package ", "is Go source: " + build},
		{"!<arch>", "is an archive: build it with -buildmode=c-shared"},
		{"#!", "is a script"},
		{"<", "is a page of HTML or XML, perhaps an error or a login: download the file again"},
	} {
		if bytes.HasPrefix(contents, []byte(format.prefix)) || bytes.HasPrefix(text, []byte(format.prefix)) {
			return format.description
		}
	}
	return "is not a WebAssembly module: it does not begin with \\0asm"
}

// maxDescribed is how many bytes of a file describeOther examines.
const maxDescribed = 4 << 10
