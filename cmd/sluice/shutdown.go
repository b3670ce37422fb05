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

var errSecondSignal = errors.New("a second signal cut off requests in flight")

// shutdown ends the gateway: readiness fails at once, the gateway continues to serve for drain_delay, then requests in
// flight get shutdown_timeout to finish. A second signal ends either wait; a third has its default effect.
func (r *reloader) shutdown(sig os.Signal, signals chan os.Signal) error {
	server := r.current.Load().Server
	r.gateway.Drain()
	r.manager.notify("STOPPING=1", "shutting down: requests in flight finish")
	r.log.Info("shutting down", "signal", sig.String(), "drain_delay_ms", server.DrainDelay.Milliseconds(), "shutdown_timeout_ms", server.ShutdownTimeout.Milliseconds())
	secondSignal, cancelSecond := context.WithCancelCause(context.Background())
	defer cancelSecond(nil)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			cancelSecond(errSecondSignal)
		case <-secondSignal.Done():
		}
	}()
	delay := time.NewTimer(server.DrainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-secondSignal.Done():
	}
	ctx, cancel := context.WithTimeoutCause(secondSignal, server.ShutdownTimeout,
		fmt.Errorf("they exceeded the shutdown_timeout of %s", server.ShutdownTimeout))
	defer cancel()
	err := r.gateway.Shutdown(ctx)
	if err == nil {
		return nil
	}
	r.log.Warn("requests in flight cut off", "cause", context.Cause(ctx))
	if errors.Is(context.Cause(ctx), errSecondSignal) {
		return errSecondSignal
	}
	return nil
}

// hangup tells the two meanings of SIGHUP apart. By convention it asks a service to reload its configuration; the
// kernel also sends it to the processes of a terminal that was closed.
type hangup struct {
	signals  chan os.Signal
	terminal bool // the process was started from a terminal, and ends when it is closed
}

func newHangup() *hangup {
	h := &hangup{signals: make(chan os.Signal, 1)}
	// A process started with nohup ignores SIGHUP, and must outlive its terminal.
	h.terminal = !signal.Ignored(syscall.SIGHUP) && hasTerminal()
	signal.Notify(h.signals, syscall.SIGHUP)
	return h
}

// terminalClosed reports whether the terminal that the process was started from is gone. The kernel sends SIGHUP before
// it revokes the terminal, so terminalClosed polls for hangupGrace before it returns false.
func (h *hangup) terminalClosed() bool {
	for waited := time.Duration(0); h.terminal; waited += hangupStep {
		if !hasTerminal() {
			return true
		}
		if waited >= hangupGrace {
			return false
		}
		time.Sleep(hangupStep)
	}
	return false
}

const (
	hangupGrace = 200 * time.Millisecond // from SIGHUP until the terminal is taken to be open
	hangupStep  = 20 * time.Millisecond
)

// hasTerminal reports whether the process has a controlling terminal: only then can /dev/tty be opened.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
