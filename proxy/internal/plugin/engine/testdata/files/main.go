// Guest files uses packages that import WASI's functions for files, which fail.
package main

import (
	"io/fs"
	"os"
	"strings"
	"text/template"
)

//go:wasmexport read
func read() uint32 {
	p, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return 0
	}
	return uint32(len(p))
}

//go:wasmexport write
func write() uint32 {
	if os.WriteFile("/tmp/file", []byte("text"), 0o600) != nil && os.Mkdir("/tmp/dir", 0o700) != nil && fs.WalkDir(os.DirFS("/"), ".", func(_ string, _ fs.DirEntry, err error) error { return err }) != nil {
		return 0
	}
	return 1
}

//go:wasmexport render
func render() uint32 {
	var out strings.Builder
	t := template.Must(template.New("t").Parse(`{{range .}}{{printf "%03d" .}},{{end}}`))
	if err := t.Execute(&out, []int{1, 22, 333}); err != nil {
		return 0
	}
	return uint32(out.Len())
}

func main() {}
