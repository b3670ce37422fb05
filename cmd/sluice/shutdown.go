package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var errSecondSignal = errors.New("requests in flight were cut off at the second signal")

// shutdown ends the gateway: it is not ready any more at once, serves on for as long as a balancer in front of it needs to
// notice, and lets what is in flight finish then. Another signal ends either wait, a third one has its default effect.
func (r *reloader) shutdown(sig os.Signal, signals chan os.Signal) error {
	server := r.current.Load().Server
	r.gateway.Drain()
	r.log.Info("shutting down", "signal", sig.String(), "delay", server.DrainDelay, "patience", server.ShutdownTimeout)
	hurried, hurry := context.WithCancelCause(context.Background())
	defer hurry(nil)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			hurry(errSecondSignal)
		case <-hurried.Done():
		}
	}()
	delay := time.NewTimer(server.DrainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-hurried.Done():
	}
	ctx, cancel := context.WithTimeoutCause(hurried, server.ShutdownTimeout,
		fmt.Errorf("they took longer than the shutdown_timeout of %s", server.ShutdownTimeout))
	defer cancel()
	err := r.gateway.Shutdown(ctx)
	if err == nil {
		return nil
	}
	r.log.Warn("requests were cut off", "why", context.Cause(ctx))
	if errors.Is(context.Cause(ctx), errSecondSignal) {
		return errSecondSignal
	}
	return nil
}

// hangup is what SIGHUP means. By custom it asks a service to read its configuration again; the kernel sends it to the
// processes of a terminal that is closed.
type hangup struct {
	signals  chan os.Signal
	terminal bool // the process had one, and is to end with it
}

func newHangup() *hangup {
	h := &hangup{signals: make(chan os.Signal, 1)}
	// Whoever starts it with nohup wants it to outlive the terminal.
	h.terminal = !signal.Ignored(syscall.SIGHUP) && hasTerminal()
	signal.Notify(h.signals, syscall.SIGHUP)
	return h
}

// terminalGone tells whether the process had a terminal, and has none now.
func (h *hangup) terminalGone() bool { return h.terminal && !hasTerminal() }

// hasTerminal tells whether the process has a controlling terminal: only then can it be opened by this name.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
