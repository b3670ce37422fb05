package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBundledRoots runs itself as a process whose system has no root certificates, because fallback roots can be set only once in a
// process.
func TestBundledRoots(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != "" {
		useBundledRoots()
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Errorf("there are no root certificates: %v", err)
		}
		return
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestBundledRoots$")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+nowhere, "SSL_CERT_DIR="+nowhere)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
