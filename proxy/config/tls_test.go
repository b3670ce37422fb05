package config_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

// TestTLS checks [server.tls] and its files.
func TestTLS(t *testing.T) {
	const table = "[server.tls]\ncert = \"cert.pem\"\nkey = \"/keys/key.pem\"\n"
	soon := certtest.New(t, today.AddDate(0, -1, 0), today.AddDate(0, 0, 3))
	past, future := certtest.New(t, today.AddDate(0, -2, 0), today.AddDate(0, -1, 0)), certtest.New(t, today.AddDate(0, 1, 0), today.AddDate(1, 0, 0))
	good, other := certtest.New(t, today.AddDate(0, -1, 0), today.AddDate(0, 6, 0)), certtest.Valid(t)
	files := func(cert, key []byte) map[string][]byte {
		return map[string][]byte{"/etc/sluice/cert.pem": cert, "/keys/key.pem": key}
	}
	for _, c := range []struct {
		name, text string
		files      map[string][]byte
		want       string // error or warning; "" for neither
	}{
		{"valid", table, files(good.Cert, good.Key), ""},
		{"expires soon", table, files(soon.Cert, soon.Key), "2:8: server.tls.cert: the certificate expires on 2026-06-04 12:00 UTC"},
		{"expired", table, files(past.Cert, past.Key), "2:8: server.tls.cert: the certificate expired on 2026-05-01 12:00 UTC"},
		{"not valid yet", table, files(future.Cert, future.Key), "2:8: server.tls.cert: the certificate is not valid before 2026-07-01 12:00 UTC"},
		{"no certificate", table, files(nil, good.Key), `2:8: server.tls.cert: "cert.pem": contains no PEM certificate`},
		{"damaged certificate", table, files([]byte(strings.Replace(string(good.Cert), "\nMII", "\nMIJ", 1)), good.Key), `2:8: server.tls.cert: "cert.pem": `},
		{"no key", table, files(good.Cert, good.Cert), `3:7: server.tls.key: "/keys/key.pem": found a certificate rather than a key`},
		{"key of another certificate", table, files(good.Cert, other.Key), `3:7: server.tls.key: "/keys/key.pem": private key does not match public key`},
		{"missing file", table, nil, `2:8: server.tls.cert: "cert.pem": file does not exist`},
		{"missing member", "[server.tls]\ncert = \"cert.pem\"\n", nil, "1:9: server.tls.key: is missing"},
		{"misspelt member", "[server.tls]\ncertificate = \"x\"\n", nil, "2:1: server.tls.certificate: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse("/etc/sluice/gateway.toml", []byte(c.text), config.Options{Bundled: bundled, Now: today, ReadFile: func(name string) ([]byte, error) {
				if data, ok := c.files[name]; ok {
					return data, nil
				}
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}})
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case len(cfg.Warnings) > 0:
				got = cfg.Warnings.Error()
			}
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.Contains(got, string(good.Key[40:60])) {
				t.Errorf("the private key is shown: %s", got)
			}
		})
	}
}

func TestTLSErrorNamesFile(t *testing.T) {
	dir := t.TempDir()
	pair := certtest.Valid(t)
	cert, key := pair.Write(t, dir)
	loaded, err := (&config.TLS{CertFile: cert, KeyFile: key}).Load()
	if err != nil || loaded.Leaf.SerialNumber.Cmp(pair.Serial) != 0 {
		t.Fatalf("%v", err)
	}
	for _, c := range []struct {
		tls  config.TLS
		want string
	}{
		{config.TLS{CertFile: filepath.Join(dir, "none"), KeyFile: key}, fmt.Sprintf("TLS certificate %s: no such file or directory", filepath.Join(dir, "none"))},
		{config.TLS{CertFile: cert, KeyFile: dir}, fmt.Sprintf("TLS key %s: not a regular file, or too large", dir)},
	} {
		if _, err := c.tls.Load(); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestMaxBodyMemoryFitsLargestBody(t *testing.T) {
	_, err := parse("[server]\nmax_body = \"2MiB\"\nmax_body_memory = \"1MiB\"\n")
	if want := "3:19: server.max_body_memory: must be at least max_body, which is 2097152 bytes"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	cfg := mustParse(t, "[server]\nmax_requests = 7\nmax_body_memory = \"64MiB\"\nmax_queue = 9\n")
	if s := cfg.Server; s.MaxRequests != 7 || s.MaxBodyMemory != 64<<20 || s.MaxQueue != 9 {
		t.Errorf("server %+v", s)
	}
}
