package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a new terminal: the end that a window has, and the one that programs have.
func terminal(t *testing.T) (window, program *os.File) {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { window.Close() })
	var n int
	raw, err := window.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) {
			if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
				n, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
			}
		})
		if err == nil {
			err = failed
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return window, program
}

// TestTheWindowIsClosed: a gateway that was started by hand ends with its terminal, though SIGHUP reloads it as long as
// that is there; one that was started with nohup does not.
func TestTheWindowIsClosed(t *testing.T) {
	for name, before := range map[string]string{"ends": "", "outlives it with nohup": "trap '' HUP; "} {
		t.Run(name, func(t *testing.T) {
			window, program := terminal(t)
			cmd := exec.Command("/bin/sh", "-c", before+`exec "$@"`, "sh", binary(t, true), "serve", "--config", configured(t, demoConfig("", testKey)))
			cmd.Stdin = program
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
			p := launch(t, cmd, t.TempDir(), nil)
			program.Close()
			p.ready()
			p.signal(syscall.SIGHUP)
			p.await(`msg="configuration reloaded"`)
			window.Close()
			if before != "" {
				p.await(`msg="configuration reloaded"`)
				p.signal(syscall.SIGTERM)
			}
			p.await(`msg="shutting down"`)
			if exit := p.wait(); exit != 0 {
				t.Errorf("exit %d", exit)
			}
		})
	}
}
