package linktest

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// Ethernet is the MTU of Ethernet.
const Ethernet = 1500

// Options are the options of a network.
type Options struct {
	Seed uint64 // seed of the random decisions about packets
	MTU  int    // MTU of the interfaces, which hosts know; 0 means Ethernet
}

// Network is a network of a client, a gateway and an upstream, with links from the gateway to the other two.
type Network struct {
	Client, Gateway, Upstream *Host
	ToClient, ToUpstream      *Link // both have one end at the gateway

	GatewayAddress  string // address of the gateway on the client's link
	UpstreamAddress string // address of the upstream
}

// New creates a network that exists until the end of the test. It returns an error if the machine does not support it.
func New(tb testing.TB, o Options) (*Network, error) {
	n := &Network{GatewayAddress: "10.77.1.1", UpstreamAddress: "10.77.2.2"}
	var err error
	for name, h := range map[string]**Host{"client": &n.Client, "gateway": &n.Gateway, "upstream": &n.Upstream} {
		if *h, err = newHost(name); err != nil {
			return nil, fmt.Errorf("create a network namespace: %w", err)
		}
		tb.Cleanup((*h).close)
	}
	if n.ToClient, err = newLink(n.Gateway, "10.77.1.1/30", n.Client, "10.77.1.2/30", "client", o); err == nil {
		tb.Cleanup(n.ToClient.close)
		n.ToUpstream, err = newLink(n.Gateway, "10.77.2.1/30", n.Upstream, "10.77.2.2/30", "upstream", o)
	}
	if err != nil {
		return nil, fmt.Errorf("create a link: %w", err)
	}
	tb.Cleanup(n.ToUpstream.close)
	return n, nil
}

// Link is a link between two hosts.
type Link struct {
	ends       [2]*os.File
	directions [2]*direction
	wg         sync.WaitGroup
}

func newLink(a *Host, addressA string, b *Host, addressB, name string, o Options) (*Link, error) {
	if o.MTU == 0 {
		o.MTU = Ethernet
	}
	l := &Link{}
	var err error
	if l.ends[0], err = a.newDevice(name, netip.MustParsePrefix(addressA), o.MTU); err != nil {
		return nil, err
	}
	if l.ends[1], err = b.newDevice("gateway", netip.MustParsePrefix(addressB), o.MTU); err != nil {
		return nil, errors.Join(err, l.ends[0].Close())
	}
	for i := range l.directions {
		d := &direction{from: l.ends[i], to: l.ends[1-i], rand: rand.New(rand.NewPCG(o.Seed, uint64(i))), added: make(chan struct{}, 1), stop: make(chan struct{})}
		l.directions[i] = d
		l.wg.Go(d.read)
		l.wg.Go(d.deliver)
	}
	return l, nil
}

// Set changes the conditions of both directions for all further packets.
func (l *Link) Set(c Conditions) {
	for _, d := range l.directions {
		d.mu.Lock()
		d.conditions = c
		d.mu.Unlock()
	}
}

// Counts returns the number of delivered and lost packets in both directions. A duplicated packet counts once.
func (l *Link) Counts() (passed, lost int) {
	for _, d := range l.directions {
		d.mu.Lock()
		passed += d.passed
		lost += d.lost
		d.mu.Unlock()
	}
	return passed, lost
}

func (l *Link) close() {
	for i, d := range l.directions {
		close(d.stop)
		_ = l.ends[i].Close()
	}
	l.wg.Wait()
}

// direction is one direction of a link.
type direction struct {
	from, to *os.File

	mu           sync.Mutex
	conditions   Conditions
	rand         *rand.Rand
	busyUntil    time.Time // when the packets so far have been sent at the rate
	passed, lost int
	waiting      packets

	added chan struct{} // receives a value after packets were added to waiting
	stop  chan struct{}
}

// packet is a packet in transit.
type packet struct {
	due  time.Time
	seq  int // orders packets with the same time
	data []byte
}

// read reads and schedules packets until the device is closed.
func (d *direction) read() {
	buffer := make([]byte, 64<<10)
	for n := 0; ; n++ {
		length, err := d.from.Read(buffer)
		if err != nil {
			return
		}
		due := d.schedule(length, time.Now())
		if len(due) == 0 {
			continue
		}
		p := append([]byte(nil), buffer[:length]...)
		d.mu.Lock()
		for _, at := range due {
			heap.Push(&d.waiting, packet{at, n, p})
		}
		d.mu.Unlock()
		select {
		case d.added <- struct{}{}:
		default:
		}
	}
}

// deliver writes packets when they are due.
func (d *direction) deliver() {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		d.mu.Lock()
		now, wait := time.Now(), time.Hour
		var due []packet
		for len(d.waiting) > 0 {
			if wait = d.waiting[0].due.Sub(now); wait > 0 {
				break
			}
			due = append(due, heap.Pop(&d.waiting).(packet))
			wait = time.Hour
		}
		d.mu.Unlock()
		for _, p := range due {
			// A packet is lost if the device's queue is full.
			_, _ = d.to.Write(p.data)
		}
		t.Reset(wait)
		select {
		case <-t.C:
		case <-d.added:
		case <-d.stop:
			return
		}
	}
}

// packets is a heap of packets, ordered by delivery time.
type packets []packet

func (p packets) Len() int { return len(p) }
func (p packets) Less(i, j int) bool {
	if p[i].due.Equal(p[j].due) {
		return p[i].seq < p[j].seq
	}
	return p[i].due.Before(p[j].due)
}
func (p packets) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *packets) Push(x any)   { *p = append(*p, x.(packet)) }
func (p *packets) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	(*p)[last] = packet{}
	*p = (*p)[:last]
	return x
}
