package config_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
			got := checkReport(t, cfg, err, c.want)
			if strings.Contains(got, string(good.Key[40:60])) {
				t.Errorf("the private key is shown: %s", got)
			}
		})
	}
}

// TestClientCertificates checks the keys about client certificates and their files, and that the files are watched.
func TestClientCertificates(t *testing.T) {
	pair := certtest.Valid(t)
	root, stranger := certtest.NewAuthority(t, "root"), certtest.NewAuthority(t, "stranger")
	outdated := func(l *x509.RevocationList) { l.NextUpdate = l.ThisUpdate.Add(time.Minute) }
	partial := func(l *x509.RevocationList) {
		l.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}}
	}
	const (
		table    = "[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n"
		ca       = "client_ca = \"ca.pem\"\n"
		crl      = "client_crl = \"crl\"\n"
		identity = "[[identities]]\nissuer = \"certificate\"\nname = \"{san.uri}\"\n"
	)
	der, _ := pem.Decode(root.Revoke(nil))
	for _, c := range []struct {
		name, text string
		ca, crl    []byte
		want       string // error or warning; "" for neither
	}{
		{"authorities", table + ca + identity, root.PEM(), nil, ""},
		{"two authorities", table + ca + identity, slices.Concat(root.PEM(), stranger.PEM()), nil, ""},
		{"required", table + ca + "client = \"require\"\n", root.PEM(), nil, ""},
		{"a list", table + ca + crl + identity, root.PEM(), root.Revoke(nil), ""},
		{"a list in DER", table + ca + crl + identity, root.PEM(), der.Bytes, ""},
		{"two lists", table + ca + crl + identity, slices.Concat(root.PEM(), stranger.PEM()), slices.Concat(root.Revoke(nil), stranger.Revoke(nil)), ""},
		{"no rule", table + ca, root.PEM(), nil, "server.tls.client_ca: no [[identities]] accept client certificates"},
		{"no authorities", table + identity, nil, nil, "5:10: identities[0].issuer: \"certificate\" needs client_ca in [server.tls]"},
		{"no TLS", identity, nil, nil, "2:10: identities[0].issuer: \"certificate\" needs client_ca in [server.tls]"},
		{"a missing file", table + ca, nil, nil, "4:13: server.tls.client_ca: \"ca.pem\": file does not exist"},
		{"an empty file", table + ca, []byte("x"), nil, "4:13: server.tls.client_ca: \"ca.pem\": contains no PEM certificate"},
		{"not an authority", table + ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Client(nil).Certificate[0]}), nil, "4:13: server.tls.client_ca: \"ca.pem\": the certificate of  is not that of an authority"},
		{"a missing list", table + ca + crl, root.PEM(), nil, "5:14: server.tls.client_crl: \"crl\": file does not exist"},
		{"not a list", table + ca + crl, root.PEM(), []byte("x"), "5:14: server.tls.client_crl: \"crl\": is not a revocation list in PEM or DER"},
		{"a list of another authority", table + ca + crl, root.PEM(), stranger.Revoke(nil), "5:14: server.tls.client_crl: \"crl\": the list of CN=stranger is not signed by an authority in client_ca"},
		{"a forged list", table + ca + crl, root.PEM(), certtest.NewAuthority(t, "root").Revoke(nil), "5:14: server.tls.client_crl: \"crl\": the list of CN=root is not signed by an authority in client_ca"},
		{"a part of a list", table + ca + crl, root.PEM(), root.Revoke(partial), "5:14: server.tls.client_crl: \"crl\": the list of CN=root has the critical extension 2.5.29.27, which is not supported: want complete lists"},
		{"an old list", table + ca + crl + identity, root.PEM(), root.Revoke(outdated), "5:14: server.tls.client_crl: the list of CN=root should have been replaced by "},
		{"a list without authorities", table + crl, nil, root.Revoke(nil), "4:14: server.tls.client_crl: needs client_ca"},
		{"require without authorities", table + "client = \"require\"\n", nil, nil, "4:10: server.tls.client: needs client_ca"},
		{"an unknown name", table + ca + "[[identities]]\nissuer = \"certificate\"\nname = \"{sub}\"\n", root.PEM(), nil, "7:8: identities[0].name: certificates have no \"sub\": want san.uri, san.dns, san.email, subject or subject.cn"},
		{"an issuer of this name", "[[issuers]]\nname = \"certificate\"\nurl = \"https://x.example\"\naudience = \"a\"\n", nil, nil, "2:8: issuers[0].name: \"certificate\" is the issuer of client certificates: use another name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string][]byte{"cert.pem": pair.Cert, "key.pem": pair.Key, "ca.pem": c.ca, "crl": c.crl}
			cfg, err := config.Parse("/etc/sluice/gateway.toml", []byte(c.text), config.Options{Bundled: bundled, Now: time.Now(), ReadFile: func(name string) ([]byte, error) {
				if data := files[filepath.Base(name)]; data != nil {
					return data, nil
				}
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}})
			checkReport(t, cfg, err, c.want)
			if err == nil && c.crl != nil && !slices.Contains(cfg.Files(), "/etc/sluice/crl") {
				t.Errorf("the list is not watched: %v", cfg.Files())
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

// checkReport checks what a configuration is said to be wrong about, an error or else warnings, and returns it.
func checkReport(t *testing.T, cfg *config.Config, err error, want string) (got string) {
	t.Helper()
	switch {
	case err != nil:
		got = err.Error()
	case len(cfg.Warnings) > 0:
		got = cfg.Warnings.Error()
	}
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	return got
}
