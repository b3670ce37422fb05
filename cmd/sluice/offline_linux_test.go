//go:build languages

package main

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// offline returns the attributes of processes without a network, not even loopback, or nil if the system does not allow
// that.
var offline = sync.OnceValue(func() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd := exec.Command("true")
	if cmd.SysProcAttr = attributes; cmd.Run() != nil {
		return nil
	}
	return attributes
})

// runOffline is like run, but without a network.
func runOffline(t *testing.T, path, dir string, vars, args []string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment(vars...), offline()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return result{processExit(t, cmd.Run()), stdout.String(), stderr.String()}
}
