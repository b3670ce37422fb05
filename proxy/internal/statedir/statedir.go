// Package statedir manages the state folder, which holds the data that a gateway must not lose: its journal, and the
// progress of canaries.
//
// It finds the folder, creates it, and locks it against a second process. It does not know the files in it. Unlike the
// cache of compiled plugins, which may be deleted at any time, the folder holds data that exists nowhere else.
//
// Concurrency: everything is safe for concurrent use.
package statedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/privatedir"
)

// lockName is the lock file, which contains the name and id of the process that has it locked.
const lockName = "lock"

// Find returns the path of the state folder: explicit if it is not empty, else systemd's $STATE_DIRECTORY, else the
// folder sluice in $XDG_STATE_HOME, which defaults to ~/.local/state. env looks up variables like os.LookupEnv.
func Find(explicit string, env func(name string) (string, bool)) (string, error) {
	if explicit != "" {
		return filepath.Abs(explicit)
	}
	get := func(name string) string {
		v, _ := env(name)
		return v
	}
	// systemd may pass several folders, separated by colons.
	if dir, _, _ := strings.Cut(get("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	// The XDG specification requires relative paths to be ignored.
	if base := get("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "sluice"), nil
	}
	for _, home := range []string{get("HOME"), get("USERPROFILE")} {
		if filepath.IsAbs(home) {
			return filepath.Join(home, ".local", "state", "sluice"), nil
		}
	}
	return "", errors.New("no state folder: set journal in [store], $STATE_DIRECTORY or $HOME")
}

// InUseError is the error of Open if another process has the folder locked.
type InUseError struct {
	Dir     string
	Process string // name and id; "" if unknown
}

func (e *InUseError) Error() string {
	process := e.Process
	if process == "" {
		process = "another process"
	}
	return fmt.Sprintf("state folder %s is in use by %s; each gateway needs its own", e.Dir, process)
}

// Dir is a state folder that this process has locked. Open returns one.
type Dir struct {
	path string
	lock *os.File
}

// Open creates the folder if it does not exist, with access for this user only, and locks it until Close. It fails with
// an *InUseError if another process, or another Dir of this process, has it locked. The kernel releases the lock of a
// process that ends or is killed.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	if err := check(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	locked, err := lock(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state folder %s: lock: %w", path, err), f.Close())
	}
	if !locked {
		e := &InUseError{path, holder(f)}
		_ = f.Close()
		return nil, e
	}
	// Ignore write errors, such as a full disk: the lock is held anyway, and users of the folder will report them.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(filepath.Base(os.Args[0])+" "+strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Dir{path, f}, nil
}

// lockTries is the number of attempts to lock a file while calls of Holder have it locked.
const lockTries = 1000

// lock takes an exclusive lock on a file. If the file has only shared locks, which are those of Holder and short, it
// waits for them.
func lock(f *os.File) (locked bool, err error) {
	for try := 1; ; try++ {
		if locked, err = tryLock(f, true); locked || err != nil {
			return locked, err
		}
		shared, err := tryLock(f, false)
		if !shared || err != nil {
			return false, err
		}
		unlock(f)
		if try == lockTries {
			return false, nil
		}
		time.Sleep(time.Duration(1+try%4) * time.Millisecond)
	}
}

// Holder returns the name and id of the process that has a folder locked; held is false if there is none. It creates no
// files, and it does not make a concurrent Open fail.
func Holder(path string) (process string, held bool, err error) {
	f, err := os.Open(filepath.Join(path, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("state folder: %w", err)
	}
	defer f.Close()
	free, err := tryLock(f, false)
	if err != nil {
		return "", false, fmt.Errorf("state folder %s: lock: %w", path, err)
	}
	if free {
		return "", false, nil
	}
	if process = holder(f); process == "" {
		process = "another process"
	}
	return process, true, nil
}

// check returns an error for a folder whose contents other users could replace.
func check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	switch err := privatedir.Check(info); {
	case errors.Is(err, privatedir.ErrWritable):
		return fmt.Errorf("state folder %s %w; change its mode, or use a new folder inside it", path, err)
	case err != nil:
		return fmt.Errorf("state folder %s %w", path, err)
	}
	return nil
}

// holder returns the name and id of the process that has the lock file f locked, or "" if they are not in the file.
func holder(f *os.File) string {
	buf := make([]byte, 256)
	n, _ := f.ReadAt(buf, 0)
	name, id, ok := strings.Cut(strings.TrimSpace(string(buf[:n])), " ")
	if _, err := strconv.Atoi(id); err != nil || !ok {
		return ""
	}
	return fmt.Sprintf("%s (process %s)", name, id)
}

// Path returns the folder's path.
func (d *Dir) Path() string { return d.path }

// Sub returns the path of a folder inside the state folder, and creates it if it does not exist.
func (d *Dir) Sub(name string) (string, error) {
	path := filepath.Join(d.path, name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("state folder: %w", err)
	}
	return path, check(path)
}

// identityName is the file that contains the folder's identity.
const identityName = "identity"

// identity returns the folder's identity, and creates it if there is none.
func (d *Dir) identity() (string, error) {
	name := filepath.Join(d.path, identityName)
	data, err := os.ReadFile(name)
	if id := strings.TrimSpace(string(data)); err == nil && len(id) == len(rand.Text()) && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("state folder: %w", err)
	}
	// The file does not exist or is damaged.
	id := rand.Text()
	if err := os.WriteFile(name+".new", []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	return id, nil
}

// Close releases the lock.
func (d *Dir) Close() error { return d.lock.Close() }
