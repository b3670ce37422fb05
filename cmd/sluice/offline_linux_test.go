//go:build languages

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// offline are the attributes of processes that have no network, not even loopback; nil where the system does not allow that.
var offline = sync.OnceValue(func() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd := exec.Command("true")
	if cmd.SysProcAttr = attributes; cmd.Run() != nil {
		return nil
	}
	return attributes
})

// runOffline is run without a network.
func runOffline(t *testing.T, path, dir string, vars, args []string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment(vars...), offline()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return result{processExit(t, cmd.Run()), stdout.String(), stderr.String()}
}

func fileSHA256(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
