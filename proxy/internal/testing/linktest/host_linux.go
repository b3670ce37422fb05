package linktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Host is a host of a network.
type Host struct {
	name      string
	namespace int // descriptor of the network namespace, which keeps it alive
}

// openNamespace opens the network namespace of the calling thread.
func openNamespace() (int, error) {
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// newHost creates a namespace with only the loopback interface.
func newHost(name string) (*Host, error) {
	h := &Host{name: name}
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if h.namespace, err = openNamespace(); err != nil {
			return os.NewSyscallError("open namespace", err)
		}
		return configureInterface("lo", netip.Prefix{}, 0)
	})
	return h, err
}

// onThread runs f on a thread of its own, so that f may change the thread's namespace.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := openNamespace()
		if err != nil {
			done <- err
			return
		}
		defer unix.Close(home)
		err = f()
		if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
			// Without UnlockOSThread, the thread ends with its goroutine.
			done <- errors.Join(err, os.NewSyscallError("setns", back))
			return
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

// Do runs f in the host's namespace, which sockets and processes that f creates belong to. f must create them on its
// own goroutine.
func (h *Host) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(h.namespace, unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

// Listen listens on a port of the host.
func (h *Host) Listen(address string) (ln net.Listener, err error) {
	err = h.Do(func() error {
		ln, err = net.Listen("tcp4", address)
		return err
	})
	return ln, err
}

// Dial connects from the host to an address, which must not be a host name.
func (h *Host) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() error {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

func (h *Host) close() { _ = unix.Close(h.namespace) }

// newDevice creates a TUN device on the host. Its packets are read from and written to the file.
func (h *Host) newDevice(name string, address netip.Prefix, mtu int) (f *os.File, err error) {
	err = h.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("open /dev/net/tun", err)
		}
		r, err := unix.NewIfreq(name)
		if err == nil {
			r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, r))
		}
		if err == nil {
			err = configureInterface(name, address, mtu)
		}
		if err != nil {
			_ = unix.Close(fd)
			return err
		}
		f = os.NewFile(uintptr(fd), "tun "+h.name)
		return nil
	})
	return f, err
}

// configureInterface sets an interface's address and MTU, and brings it up.
func configureInterface(name string, address netip.Prefix, mtu int) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(s)
	set := func(call string, request uint, fill func(*unix.Ifreq) error) error {
		r, err := unix.NewIfreq(name)
		if err == nil {
			err = fill(r)
		}
		if err == nil {
			err = os.NewSyscallError(call, unix.IoctlIfreq(s, request, r))
		}
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		return nil
	}
	if address.IsValid() {
		ip, mask := address.Addr().AsSlice(), net.CIDRMask(address.Bits(), 32)
		if err := set("SIOCSIFADDR", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip) }); err != nil {
			return err
		}
		if err := set("SIOCSIFNETMASK", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }); err != nil {
			return err
		}
	}
	if mtu > 0 {
		if err := set("SIOCSIFMTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(mtu)); return nil }); err != nil {
			return err
		}
	}
	return set("SIOCSIFFLAGS", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil })
}
