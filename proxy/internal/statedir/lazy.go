package statedir

import (
	"errors"
	"sync"
)

// Lazy is a state folder that is opened, and thereby locked, on first use.
type Lazy struct {
	Path string // as returned by Find; "" if there is no state folder

	mu  sync.Mutex
	dir *Dir
}

// Sub returns the path of a folder inside the state folder, and creates it if it does not exist.
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

// Identity returns the folder's unique identity: random letters and digits, created by the first call and stored in the
// folder.
func (l *Lazy) Identity() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return "", err
	}
	return l.dir.identity()
}

// Close releases the lock if the folder is open.
func (l *Lazy) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir != nil {
		_ = l.dir.Close()
		l.dir = nil
	}
}
