package main

import (
	"log/slog"
	"os"
	"sync"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// accessLog writes the access log to a file of its own. A nil accessLog does nothing.
type accessLog struct {
	path string
	out  *proxy.LogWriter

	mu   sync.Mutex
	file *os.File
}

// openAccessLog opens the file of the access log. It returns nil if the access log is part of the log.
func openAccessLog(s config.Server) (*accessLog, error) {
	if s.AccessLog == "" {
		return nil, nil
	}
	a := &accessLog{path: s.AccessLog}
	if err := a.reopen(); err != nil {
		return nil, err
	}
	a.out = proxy.NewLogWriter(a)
	return a, nil
}

// reopen opens the file again, because another program may have renamed it. If that fails, the open file stays in use.
func (a *accessLog) reopen() error {
	if a == nil {
		return nil
	}
	f, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_ = a.file.Close()
	}
	a.file = f
	return nil
}

// Write implements io.Writer for the LogWriter.
func (a *accessLog) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.Write(p)
}

// logger returns the logger of the access log, nil for the log itself.
func (a *accessLog) logger(level *slog.LevelVar, s config.Server) *slog.Logger {
	if a == nil {
		return nil
	}
	return newLogger(a.out, level, s)
}

// dropped returns the number of lines that were lost.
func (a *accessLog) dropped() int64 {
	if a == nil {
		return 0
	}
	return a.out.Dropped()
}

// close writes what is left, and closes the file.
func (a *accessLog) close() {
	if a == nil {
		return
	}
	if a.out.Close(logCloseTimeout) {
		_ = a.file.Close()
	}
}
