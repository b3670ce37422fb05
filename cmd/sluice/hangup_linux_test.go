package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudoterminal, and returns the terminal emulator's side and the program's side.
func openTerminal(t *testing.T) (emulator, program *os.File) {
	t.Helper()
	emulator, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { emulator.Close() })
	var n int
	raw, err := emulator.SyscallConn()
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
	return emulator, program
}

// TestTerminalHangup checks that SIGHUP reloads a gateway while its terminal is open, and that closing the terminal
// ends the gateway unless it was started with nohup.
func TestTerminalHangup(t *testing.T) {
	t.Parallel()
	// Programs start with the default action for a signal that their parent catches. Without this, the gateway would
	// ignore SIGHUP when the tests themselves are run with nohup.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	for name, setup := range map[string]string{"exits": "", "survives with nohup": "trap '' HUP; "} {
		t.Run(name, func(t *testing.T) {
			emulator, program := openTerminal(t)
			cmd := exec.Command("/bin/sh", "-c", setup+`exec "$@"`, "sh", buildSluice(t, true), "serve", "--config", writeConfig(t, demoConfig("", testKey)))
			cmd.Stdin = program
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
			p := launch(t, cmd, t.TempDir(), nil)
			program.Close()
			p.ready()
			p.signal(syscall.SIGHUP)
			p.await(`msg="configuration reloaded"`)
			emulator.Close()
			if setup != "" {
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
