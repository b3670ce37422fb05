package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBundledRoots runs itself in a new process without root certificates of the system, because fallback roots can
// only be set once in a process.
func TestBundledRoots(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != "" {
		useBundledRoots()
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Errorf("no root certificates: %v", err)
		}
		return
	}
	missing := filepath.Join(t.TempDir(), "missing")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestBundledRoots$")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+missing, "SSL_CERT_DIR="+missing)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
