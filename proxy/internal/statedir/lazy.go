package statedir

import (
	"errors"
	"sync"
)

// Lazy is a state folder that is opened, and so locked, when something is first kept in it.
type Lazy struct {
	Path string // as Find returns it; "": there is none

	mu  sync.Mutex
	dir *Dir
}

// Sub returns the path of a folder in the state folder, and creates it if it does not exist.
func (l *Lazy) Sub(name string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return "", err
	}
	return l.dir.Sub(name)
}

func (l *Lazy) open() (err error) {
	switch {
	case l.Path == "":
		return errors.New("no state folder")
	case l.dir == nil:
		l.dir, err = Open(l.Path)
	}
	return err
}

// Identity returns what no other folder has, random letters and digits, which it makes at the first call.
func (l *Lazy) Identity() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return "", err
	}
	return l.dir.identity()
}

// Close gives the lock back, if there is one.
func (l *Lazy) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir != nil {
		_ = l.dir.Close()
		l.dir = nil
	}
}
