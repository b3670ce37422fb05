package ocitest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// StartDockerRegistry starts Debian's docker-registry on a free port of 127.0.0.1, with its data in a folder, and waits
// until it responds. It returns the registry's name in references. The registry is stopped when ctx ends, or at the end
// of the test.
func StartDockerRegistry(ctx context.Context, tb testing.TB, program, data string) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil {
		tb.Fatal(err)
	}
	config := filepath.Join(tb.TempDir(), "registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: { level: error }\nstorage: { filesystem: { rootdirectory: %q } }\nhttp: { addr: %q }\n", data, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	c := exec.CommandContext(ctx, program, "serve", config)
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	tb.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(20 * time.Second)
	for {
		if resp, err := client.Get("http://" + address + "/v2/"); err == nil {
			resp.Body.Close()
			return address
		}
		select {
		case <-poll.C:
		case err := <-ended:
			ended <- err
			tb.Fatalf("docker-registry ended: %v\n%s", err, &log)
		case <-deadline:
			tb.Fatal("docker-registry does not respond")
		}
	}
}
