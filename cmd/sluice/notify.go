package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// serviceManager notifies the process that started this one, such as systemd for a unit with Type=notify, of the
// gateway's state (see sd_notify(3)). A nil serviceManager does nothing.
type serviceManager struct {
	conn *net.UnixConn
	log  *slog.Logger
}

// newServiceManager connects to the socket in $NOTIFY_SOCKET, and returns nil if there is none. It unsets the variable,
// so that child processes do not notify.
func newServiceManager(log *slog.Logger) *serviceManager {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	os.Unsetenv("NOTIFY_SOCKET")
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Warn("cannot notify the service manager", "error", err)
		return nil
	}
	return &serviceManager{conn, log}
}

// notify sends a state, such as "READY=1", and a status line, which systemctl shows.
func (m *serviceManager) notify(state, format string, args ...any) {
	if m == nil {
		return
	}
	// A line break would begin another assignment.
	status, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	if state != "" {
		state += "\n"
	}
	if _, err := m.conn.Write([]byte(state + "STATUS=" + status)); err != nil {
		m.log.Warn("cannot notify the service manager", "error", err)
	}
}

func (m *serviceManager) close() {
	if m != nil {
		_ = m.conn.Close()
	}
}

// With deferAccept, a socket option, Linux lets a listener accept a connection only when its first bytes have arrived, or
// after some seconds: TCP_DEFER_ACCEPT, which package syscall lacks on other systems.
const (
	deferAccept        = 9
	deferAcceptSeconds = 30
)

// firstInherited is the first descriptor that a service manager passes on; see sd_listen_fds(3).
const firstInherited = 3

// inheritedListener returns the socket that the service manager listens on for this process (socket activation), or nil
// if there is none. While the gateway restarts, connections wait in the socket's queue instead of being refused. So do
// connections without a request, which a process that ends would have to close.
func inheritedListener() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if pid != strconv.Itoa(os.Getpid()) || count == "" {
		return nil, nil
	}
	if count != "1" {
		return nil, fmt.Errorf("the service manager passed %s sockets, want 1", count)
	}
	f := os.NewFile(firstInherited, "inherited socket")
	defer f.Close() // FileListener duplicates it
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("socket of the service manager: %w", err)
	}
	if _, ok := ln.(*net.TCPListener); !ok {
		ln.Close()
		return nil, fmt.Errorf("socket of the service manager: %s is not a TCP address", ln.Addr())
	}
	if runtime.GOOS == "linux" {
		// Without the option, a connection on which the client has sent nothing yet may be lost in a restart.
		_ = syscall.SetsockoptInt(firstInherited, syscall.IPPROTO_TCP, deferAccept, deferAcceptSeconds)
	}
	return ln, nil
}
