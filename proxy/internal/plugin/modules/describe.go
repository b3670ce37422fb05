package modules

import (
	"bytes"
	"fmt"
)

// CheckFile says of the contents of a file that is not a WebAssembly module what it is instead.
func CheckFile(name string, contents []byte) error {
	if other := describeOther(contents); other != "" {
		return fmt.Errorf("%s %s", name, other)
	}
	return nil
}

// describeOther returns what a file is that is not a WebAssembly module, by how it begins, and what to do about it; "" if it may
// be one.
func describeOther(wasm []byte) string {
	const magic, version, build = "\x00asm", "\x01\x00\x00\x00", "build it for WebAssembly, Go with GOOS=wasip1 GOARCH=wasm"
	if len(wasm) == 0 {
		return "is empty: the build has failed, or not finished"
	}
	// A comment of the text format may come first.
	text := bytes.TrimSpace(wasm[:min(len(wasm), maxDescribed)])
	for _, other := range []struct{ start, is string }{
		{magic + version, ""},
		{magic + "\x0d\x00\x01\x00", "is a WebAssembly component: build a core module, Rust with --target wasm32-unknown-unknown or wasm32-wasip1"},
		{magic, "is of another version of WebAssembly: build a core module of version 1"},
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
		if bytes.HasPrefix(wasm, []byte(other.start)) || bytes.HasPrefix(text, []byte(other.start)) {
			return other.is
		}
	}
	return "is not a WebAssembly module: it does not begin with \\0asm"
}

// maxDescribed is how much of a file describeOther looks at.
const maxDescribed = 4 << 10
