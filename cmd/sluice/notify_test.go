package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestServiceManagerIsNotified reads the notifications that systemd would receive: readiness, only after requests are
// served, and the outcome of reloads.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await := func(want ...string) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(waitTimeout)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 4096); ; {
			n, err := conn.Read(b)
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			message := string(b[:n])
			if !strings.Contains(message, want[0]) {
				continue
			}
			for _, w := range want {
				if !strings.Contains("\n"+message+"\n", "\n"+w) {
					t.Errorf("notified of %q, want a line %q", message, w)
				}
			}
			return
		}
	}
	path := writeConfig(t, demoConfig("", testKey))
	p := start(t, t.TempDir(), []string{"NOTIFY_SOCKET=" + socket}, "serve", "--config", path)
	await("READY=1", "STATUS=serving 1 configured model at 127.0.0.1:")
	base := p.ready()
	if status, body, err := complete(t, newClient(t), base, testKey, hello); status != 200 {
		t.Errorf("%d %v %s", status, err, body)
	}
	replaceFile(t, path, "[servre]\n")
	await("STATUS=reload failed; keeping the previous configuration: ")
	replaceFile(t, path, demoConfig("", testKey)+"[[models]]\nid = \"b\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n")
	await("STATUS=serving 2 configured models")
	p.signal(syscall.SIGTERM)
	await("STOPPING=1")
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// startActivated starts a gateway with a listening socket, as a service manager does. The environment must contain the
// gateway's process ID, so a shell sets it before it executes the gateway.
func startActivated(t *testing.T, socket *os.File, sockets int, args ...string) *process {
	t.Helper()
	script := fmt.Sprintf(`LISTEN_PID=$$ LISTEN_FDS=%d LISTEN_FDNAMES=sluice.socket exec "$@"`, sockets)
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", buildSluice(t, true)}, args...)...)
	cmd.ExtraFiles = []*os.File{socket}
	return launch(t, cmd, t.TempDir(), nil)
}

// managedSocket listens at an address, as a service manager does for a gateway, until the end of the test.
func managedSocket(t *testing.T, address string) (net.Listener, *os.File) {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return ln, socket
}

// TestSocketActivation restarts a gateway whose socket belongs to the service manager while clients keep opening
// connections. No connection is refused and no request fails.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	ln, socket := managedSocket(t, "127.0.0.1:0")
	// The socket overrides the address in the configuration, on which listening would fail.
	config := writeConfig(t, strings.Replace(demoConfig("", testKey), `listen = "127.0.0.1:0"`, `listen = "127.0.0.1:1"`, 1))
	base := "http://" + ln.Addr().String()

	p := startActivated(t, socket, 1, "serve", "--config", config)
	if got := p.ready(); got != base {
		t.Errorf("listening at %s, want %s", got, base)
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	served := make(chan struct{}, 1)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				status, body, err := complete(t, client, base, testKey, hello)
				if status != 200 {
					t.Errorf("%d %v %s", status, err, body)
					return
				}
				select {
				case served <- struct{}{}:
				default:
				}
			}
		})
	}
	restarts := 3
	if testing.Short() {
		restarts = 1
	}
	for range restarts {
		<-served
		p.signal(syscall.SIGTERM)
		if exit := p.wait(); exit != 0 {
			t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
		}
		p = startActivated(t, socket, 1, "serve", "--config", config)
		p.ready()
	}
	<-served
	stop()
	clients.Wait()
	p.signal(syscall.SIGTERM)
	p.wait()
}

// TestSocketActivationKeepsSilentConnections restarts a gateway whose socket belongs to the service manager. A connection
// that was opened before, and has sent nothing, is served by the new process.
func TestSocketActivationKeepsSilentConnections(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux keeps silent connections in the queue")
	}
	ln, socket := managedSocket(t, "127.0.0.1:0")
	config := writeConfig(t, demoConfig("", testKey))
	p := startActivated(t, socket, 1, "serve", "--config", config)
	base := p.ready()
	silent, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if status, body, err := complete(t, client, base, testKey, hello); status != 200 { // the gateway has seen all earlier connections
		t.Fatalf("%d %v %s", status, err, body)
	}
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	p = startActivated(t, socket, 1, "serve", "--config", config)
	p.ready()
	if err := silent.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
		t.Fatal(err)
	}
	client.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return silent, nil }}
	if status, body, err := complete(t, client, base, testKey, hello); status != 200 {
		t.Errorf("%d %v %s", status, err, body)
	}
}

func TestSocketActivationErrors(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, demoConfig("", testKey))
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	socket, err := udp.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for sockets, want := range map[int]string{2: "the service manager passed 2 sockets, want 1", 1: "socket of the service manager: "} {
		p := startActivated(t, socket, sockets, "serve", "--config", config)
		if exit := p.wait(); exit != 1 || !strings.Contains(strings.Join(p.seen, "\n"), want) {
			t.Errorf("exit %d, %q", exit, p.seen)
		}
	}
}

// TestActivatedAddressIsChecked expects a gateway without keys to reject an inherited socket that other machines can
// reach, even though the configured address is a loopback address.
func TestActivatedAddressIsChecked(t *testing.T) {
	t.Parallel()
	_, socket := managedSocket(t, "0.0.0.0:0")
	_, rest, _ := strings.Cut(demoConfig("", testKey), "[providers.demo]")
	config := writeConfig(t, "[providers.demo]"+rest)
	p := startActivated(t, socket, 1, "serve", "--config", config)
	if exit := p.wait(); exit != exitInvalid || !strings.Contains(strings.Join(p.seen, "\n"), "auth") {
		t.Errorf("exit %d, %q", exit, p.seen)
	}
}

func TestReloadCommand(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, demoConfig("", testKey))
	p := start(t, t.TempDir(), nil, "serve", "--watch=false", "--config", path)
	_, admin := p.addresses()
	pid := strconv.Itoa(p.cmd.Process.Pid)
	reload := func(vars []string, args ...string) result {
		return run(t, buildSluice(t, true), t.TempDir(), vars, append([]string{"reload", "--url", admin}, args...))
	}
	if got := reload(nil, "--pid", pid); got != (result{}) {
		t.Errorf("%+v", got)
	}
	p.await(`msg="configuration reloaded"`)
	replaceFile(t, path, "[servre]\n")
	got := reload([]string{"MAINPID=" + pid})
	if got.exit != 1 || !strings.Contains(got.stderr, "sluice: reload failed; keeping the previous configuration\n") || !strings.Contains(got.stderr, "gateway.toml:1:") {
		t.Errorf("%+v", got)
	}
	replaceFile(t, path, demoConfig("", testKey))
	if got := reload(nil, "--pid", pid); got != (result{}) {
		t.Errorf("%+v", got)
	}
	if got := reload(nil); got.exit != exitUsage || !strings.Contains(got.stderr, "--pid") {
		t.Errorf("%+v", got)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	if got := reload(nil, "--pid", pid); got.exit != 1 || !strings.Contains(got.stderr, "connection refused") {
		t.Errorf("%+v", got)
	}
}
