package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startShell starts a gateway from a shell script, in which $0 is dir. The script sets up its environment and ends with
// `exec "$@"`, which runs serve with the configuration.
func startShell(t *testing.T, dir, setup, config string, attr *syscall.SysProcAttr, args ...string) *process {
	t.Helper()
	shell := append([]string{"-c", setup, dir, buildSluice(t, true), "serve", "--quiet", "--config", writeConfig(t, config)}, args...)
	cmd := exec.Command("/bin/sh", shell...)
	cmd.SysProcAttr = attr
	return launch(t, cmd, dir, nil)
}

// cpuTime returns the CPU time that a process has used.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// Skip the process name, which may contain spaces. The state is field 3; user and system time are fields 14 and 15,
	// in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestOutOfDescriptors opens more connections than the gateway has descriptors. The gateway must neither exit nor
// spin. It serves open connections, and accepts the others when descriptors are free again.
//
// covers: F86
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	p := startShell(t, t.TempDir(), `ulimit -n 64; exec "$@"`, demoConfig("max_conns = 10000", testKey), nil)
	base := p.ready()
	early := newClient(t)
	if status, body, err := complete(t, early, base, testKey, hello); status != 200 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	p.await(`msg="accept failed; retrying"`)
	began, used := time.Now(), cpuTime(t, p.cmd.Process.Pid)
	for pause := ""; pause != "1000"; {
		pause = logAttr(p.await(`msg="accept failed; retrying"`), "pause_ms")
	}
	if share := float64(cpuTime(t, p.cmd.Process.Pid)-used) / float64(time.Since(began)); share > 0.5 {
		t.Errorf("waiting for a descriptor uses %.0f %% of a core", 100*share)
	}
	if status, body, err := complete(t, early, base, testKey, hello); status != 200 {
		t.Errorf("accepted connection: %d %v %s", status, err, body)
	}
	for _, c := range held {
		c.Close()
	}
	if status, body, err := complete(t, newClient(t), base, testKey, hello); status != 200 {
		t.Errorf("afterwards: %d %v %s", status, err, body)
	}
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// TestLogWriteFails writes the log to a full device.
//
// covers: F84
func TestLogWriteFails(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := exec.Command(buildSluice(t, true), "serve", "--config", writeConfig(t, demoConfig("", testKey)))
	cmd.Env, cmd.Stderr = environment(), full
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	// The addresses cannot be read from the log.
	var base, admin string
	eventually(t, "the gateway listens", func() bool {
		for _, address := range listenAddresses(t, cmd.Process.Pid) {
			if status, _ := get(t, "http://"+address+"/healthz"); status == 200 {
				admin = "http://" + address
			} else {
				base = "http://" + address
			}
		}
		return base != "" && admin != ""
	})
	client := newClient(t)
	for range 50 {
		if status, body, err := complete(t, client, base, testKey, hello); status != 200 {
			t.Fatalf("%d %v %s", status, err, body)
		}
	}
	eventually(t, "the dropped lines are counted", func() bool { return metric(t, admin, "sluice_log_lines_dropped_total") >= 50 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if exit := processExit(t, err); exit != 0 {
			t.Errorf("exit %d", exit)
		}
	case <-time.After(waitTimeout):
		t.Error("timed out waiting for the process to end")
	}
}

// listenAddresses returns the addresses that a process listens on.
func listenAddresses(t *testing.T, pid int) (addresses []string) {
	t.Helper()
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]bool{} // of the process's sockets
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil {
			inodes[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		// Field 1 is the local address and port in hexadecimal, field 3 the state (0A is LISTEN), and field 9 the
		// inode.
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !inodes[f[9]] {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addresses
}

// TestFullDisk puts the log and the cache on a file system of 1 MiB. The gateway must keep serving when it is full, and
// resume writing when space is available.
//
// covers: F84
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the plugins and fills a disk with log lines")
	}
	dir := t.TempDir()
	// A namespace in which the process may mount.
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := (&exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "mount -t tmpfs -o size=1m tmpfs " + dir}, SysProcAttr: attr}).CombinedOutput(); err != nil {
		t.Logf("cannot mount a disk here (%v: %s); see TestLogWriteFails", err, out)
		return
	}
	p := startShell(t, dir, `mount -t tmpfs -o size=1m tmpfs "$0" && mkdir "$0/cache" && echo mounted >&2 && exec "$@" 2>>"$0/log"`,
		demoConfig("", testKey), attr, "--cache", filepath.Join(dir, "cache"))
	p.await("mounted")
	inside := filepath.Join(fmt.Sprintf("/proc/%d/root", p.cmd.Process.Pid), dir, "log")
	log := func() string {
		text, err := os.ReadFile(inside)
		if err != nil {
			return ""
		}
		return string(text)
	}
	var base, admin string
	eventually(t, "the gateway listens", func() bool {
		for line := range strings.Lines(log()) {
			if strings.Contains(line, "msg=listening") {
				base = "http://" + logAttr(line, "address")
			}
			if strings.Contains(line, `msg="serving health`) {
				admin = "http://" + logAttr(strings.TrimSpace(line), "address")
			}
		}
		return base != "" && admin != ""
	})
	client := newClient(t)
	fillLog(t, client, base, admin)
	if status, body, err := complete(t, client, base, testKey, hello); status != 200 {
		t.Errorf("on a full disk: %d %v %s", status, err, body)
	}
	if err := os.Truncate(inside, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gateway writes log lines again", func() bool {
		listModels(t, client, base)
		return strings.Contains(log(), "msg=request")
	})
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}
