package oci_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

var digest = oci.DigestOf(nil)

func TestParseReference(t *testing.T) {
	at := "@" + string(digest)
	for _, tt := range []struct {
		text string
		want oci.Reference
		err  string
	}{
		{"oci://ghcr.io/acme/mine" + at, oci.Reference{Registry: "ghcr.io", Repository: "acme/mine", Digest: digest}, ""},
		{"oci://127.0.0.1:5000/mine:1.2" + at, oci.Reference{Registry: "127.0.0.1:5000", Repository: "mine", Tag: "1.2", Digest: digest}, ""},
		{"oci://[::1]:5000/a/b__c/d-e" + at, oci.Reference{Registry: "[::1]:5000", Repository: "a/b__c/d-e", Digest: digest}, ""},
		{"oci://registry/mine:latest", oci.Reference{Registry: "registry", Repository: "mine", Tag: "latest"}, ""},
		{"docker://a/b" + at, oci.Reference{}, "must start with oci://"},
		{"oci://mine" + at, oci.Reference{}, "no repository"},
		{"oci:///mine" + at, oci.Reference{}, "no registry"},
		{"oci://a/b", oci.Reference{}, "neither a digest nor a tag"},
		{"oci://a/b@sha256:1234", oci.Reference{}, "64 hexadecimal digits"},
		{"oci://a/b@" + strings.ToUpper(string(digest)), oci.Reference{}, "64 hexadecimal digits"},
		{"oci://a/b@sha512:" + digest.Hex() + digest.Hex(), oci.Reference{}, "64 hexadecimal digits"},
		{"oci://me:secret@a/b", oci.Reference{}, "user or password"},
		{"oci://A/b" + at, oci.Reference{}, "invalid registry"},
		{"oci://a:99999/b" + at, oci.Reference{}, "invalid port"},
		{"oci://a:080/b" + at, oci.Reference{}, "invalid port"},
		{"oci://[::1/b" + at, oci.Reference{}, "invalid address"},
		{"oci://a/../b" + at, oci.Reference{}, "invalid repository"},
		{"oci://a/B" + at, oci.Reference{}, "invalid repository"},
		{"oci://a//b" + at, oci.Reference{}, "invalid repository"},
		{"oci://a/b?x" + at, oci.Reference{}, "invalid repository"},
		{"oci://a/b:" + at, oci.Reference{}, "invalid tag"},
		{"oci://a/b:" + strings.Repeat("t", 129), oci.Reference{}, "invalid tag"},
		{"oci://a/" + strings.Repeat("b", 256) + at, oci.Reference{}, "invalid repository"},
		{"oci://a/" + strings.Repeat("b", 2000), oci.Reference{}, "too long"},
	} {
		got, err := oci.ParseReference(tt.text)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %+v, %v; want %+v, %q", tt.text, got, err, tt.want, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes a password: %v", err)
		}
	}
}

// FuzzParseReference checks that an accepted reference has one notation, and can neither leave its path nor its host.
func FuzzParseReference(f *testing.F) {
	f.Add("oci://ghcr.io/acme/mine:1.2@" + string(digest))
	f.Add("oci://[::1]:5000/mine:1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := oci.ParseReference(text)
		if err != nil {
			return
		}
		if r.String() != text {
			t.Errorf("%q is formatted as %q", text, r)
		}
		if strings.ContainsAny(r.Registry, "/@?#% \\") || strings.ContainsAny(r.Repository, ":@?#% \\") || strings.Contains(r.Repository, "..") || strings.Contains(r.Repository, "//") {
			t.Errorf("%q is accepted", text)
		}
	})
}

func descriptor(mediaType string, content []byte) oci.Descriptor {
	return oci.Descriptor{MediaType: mediaType, Digest: oci.DigestOf(content), Size: int64(len(content))}
}

const (
	tarGzip    = "application/vnd.oci.image.layer.v1.tar+gzip"
	dockerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	istioWasm  = "application/vnd.module.wasm.content.layer.v1+wasm"
)

// TestLayouts finds the module in each layout of a manifest.
func TestLayouts(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00 the module")
	archive := ocitest.Archive(ocitest.File{Name: "README.md", Content: []byte("hello")}, ocitest.File{Name: "./out/plugin.wasm", Content: module})
	layer := func(mediaType string, content []byte) []oci.Descriptor {
		return []oci.Descriptor{descriptor(mediaType, content)}
	}
	for _, tt := range []struct {
		name    string
		layers  []oci.Descriptor
		content []byte
		err     string
	}{
		{"module", layer(oci.TypeWasm, module), module, ""},
		{"module with other files", append(layer("text/markdown", nil), descriptor(oci.TypeWasm, module)), module, ""},
		{"module of a proxy", layer(istioWasm, module), module, ""},
		{"image", layer(tarGzip, archive), archive, ""},
		{"image of Docker", layer(dockerGzip, archive), archive, ""},
		{"module beside an archive", append(layer(tarGzip, archive), descriptor(oci.TypeWasm, module)), module, ""},
		{"no layer", nil, nil, "only none"},
		{"another layer", layer("text/plain", module), nil, `only "text/plain"`},
		{"two modules", append(layer(oci.TypeWasm, module), descriptor(oci.TypeWasm, nil)), nil, "2 layers of media type application/wasm"},
		{"two archives", append(layer(tarGzip, archive), descriptor(tarGzip, nil)), nil, "2 layers"},
		{"too large", []oci.Descriptor{{MediaType: oci.TypeWasm, Digest: digest, Size: oci.MaxModule + 1}}, nil, "more than 67108864"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, _ := json.Marshal(oci.Manifest{SchemaVersion: 2, MediaType: oci.TypeManifest, Config: descriptor("", nil), Layers: tt.layers})
			m, err := oci.ParseManifest(data)
			if err != nil {
				t.Fatal(err)
			}
			d, err := m.Module()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || d.Digest.Check(tt.content) != nil {
				t.Fatalf("got layer %+v, error %v", d, err)
			}
			got, err := oci.ExtractModule(d, tt.content)
			if err != nil || !bytes.Equal(got, module) {
				t.Errorf("got %q, error %v", got, err)
			}
		})
	}
}

func TestRejectsManifests(t *testing.T) {
	for text, want := range map[string]string{
		``: "not valid", `[]`: "not valid", `{}`: "schema version 0",
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json"}`:                                                  "index of several manifests",
		`{"schemaVersion":2,"mediaType":"text/html"}`:                                                                                `media type "text/html"`,
		`{"schemaVersion":2,"config":{"digest":"sha256:../../etc/passwd"}}`:                                                          "not a SHA-256",
		fmt.Sprintf(`{"schemaVersion":2,"config":{"digest":%q},"layers":[{"digest":%q,"size":-1}]}`, digest, digest):                 "without a size",
		fmt.Sprintf(`{"schemaVersion":2,"config":{"digest":%q},"layers":[{"digest":"sha256:%s"}]}`, digest, strings.Repeat("/", 64)): "not a SHA-256",
	} {
		if _, err := oci.ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}

func compress(content []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(content)
	_ = z.Close()
	return b.Bytes()
}

// tarEntry returns an entry of a tar archive, whose header and content are padded to blocks.
func tarEntry(typeflag, content string) []byte {
	b := make([]byte, 512+(len(content)+511)/512*512)
	copy(b, "plugin.wasm")
	copy(b[100:], "0000644\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00", len(content)))
	copy(b[136:], "00000000000\x00")
	copy(b[148:], "        "+typeflag)
	copy(b[257:], "ustar\x0000")
	copy(b[512:], content)
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// TestRejectsArchives passes archives that are damaged or have no single module, and bombs: a file and a hole that are
// far larger than the archive.
func TestRejectsArchives(t *testing.T) {
	module := ocitest.File{Name: "plugin.wasm", Content: []byte("module")}
	bomb := make([]byte, oci.MaxModule+1)
	whole := ocitest.Archive(module)
	// A sparse file: a hole of 2^40 bytes and no data, which takes two kilobytes before compression.
	hole := slices.Concat(
		tarEntry("x", "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n31 GNU.sparse.name=plugin.wasm\n37 GNU.sparse.realsize=1099511627776\n"),
		tarEntry("0", "0\n"+strings.Repeat("\x00", 510)), make([]byte, 1024))
	for name, tt := range map[string]struct {
		content []byte
		want    string
	}{
		"no gzip":      {[]byte("text"), "not valid gzip"},
		"no archive":   {compress([]byte("text")), "not a valid archive"},
		"truncated":    {whole[:len(whole)-20], "not a valid archive"},
		"no module":    {ocitest.Archive(ocitest.File{Name: "a.txt"}), "no file that ends with .wasm"},
		"two modules":  {ocitest.Archive(module, module), "several files"},
		"bomb":         {ocitest.Archive(ocitest.File{Name: "plugin.wasm", Content: bomb}), "when decompressed"},
		"bomb beside":  {ocitest.Archive(ocitest.File{Name: "a.txt", Content: bomb}, module), "when decompressed"},
		"hole":         {compress(hole), "when decompressed"},
		"nothing else": {compress(nil), "no file that ends with .wasm"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := oci.ExtractModule(oci.Descriptor{MediaType: tarGzip}, tt.content)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %d bytes, error %v, want %q", len(got), err, tt.want)
			}
			if len(tt.content) > 1<<20 {
				t.Errorf("the archive has %d bytes", len(tt.content))
			}
		})
	}
}

func FuzzExtractModule(f *testing.F) {
	f.Add(ocitest.Archive(ocitest.File{Name: "plugin.wasm", Content: []byte("module")}))
	f.Fuzz(func(t *testing.T, content []byte) {
		module, err := oci.ExtractModule(oci.Descriptor{MediaType: tarGzip}, content)
		if err == nil && len(module) > oci.MaxModule {
			t.Errorf("a module of %d bytes", len(module))
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(`{"schemaVersion":2,"config":{"digest":%q},"layers":[{"mediaType":"application/wasm","digest":%q,"size":1}]}`, digest, digest)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := oci.ParseManifest(data)
		if err != nil {
			return
		}
		if d, err := m.Module(); err == nil && (!d.Digest.Valid() || d.Size < 0 || d.Size > oci.MaxModule) {
			t.Errorf("the module is %+v", d)
		}
	})
}
