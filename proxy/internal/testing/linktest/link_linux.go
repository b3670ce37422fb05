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

// Ethernet is the length of a packet that usual links carry.
const Ethernet = 1500

// Options are how a network is made.
type Options struct {
	Seed uint64 // of what happens to packets
	MTU  int    // that all hosts know of; 0: Ethernet
}

// Network is a client, a gateway and an upstream, with a link between each two of them.
type Network struct {
	Client, Gateway, Upstream *Host
	ToClient, ToUpstream      *Link // both from the gateway

	// The addresses of the gateway on the client's link, and of the upstream.
	GatewayAddress, UpstreamAddress string
}

// New makes a network, which lasts as long as the test. The error says what the machine does not allow.
func New(tb testing.TB, o Options) (*Network, error) {
	n := &Network{GatewayAddress: "10.77.1.1", UpstreamAddress: "10.77.2.2"}
	var err error
	for name, h := range map[string]**Host{"client": &n.Client, "gateway": &n.Gateway, "upstream": &n.Upstream} {
		if *h, err = newHost(name); err != nil {
			return nil, fmt.Errorf("a network namespace cannot be made: %w", err)
		}
		tb.Cleanup((*h).close)
	}
	if n.ToClient, err = link(n.Gateway, "10.77.1.1/30", n.Client, "10.77.1.2/30", "client", o); err == nil {
		tb.Cleanup(n.ToClient.close)
		n.ToUpstream, err = link(n.Gateway, "10.77.2.1/30", n.Upstream, "10.77.2.2/30", "upstream", o)
	}
	if err != nil {
		return nil, fmt.Errorf("a link cannot be made: %w", err)
	}
	tb.Cleanup(n.ToUpstream.close)
	return n, nil
}

// Link is a link between two hosts.
type Link struct {
	ends [2]*os.File
	ways [2]*direction
	wg   sync.WaitGroup
}

func link(a *Host, addressA string, b *Host, addressB, name string, o Options) (*Link, error) {
	if o.MTU == 0 {
		o.MTU = Ethernet
	}
	l := &Link{}
	var err error
	if l.ends[0], err = a.device(name, netip.MustParsePrefix(addressA), o.MTU); err != nil {
		return nil, err
	}
	if l.ends[1], err = b.device("gateway", netip.MustParsePrefix(addressB), o.MTU); err != nil {
		return nil, errors.Join(err, l.ends[0].Close())
	}
	for i := range l.ways {
		d := &direction{from: l.ends[i], to: l.ends[1-i], rand: rand.New(rand.NewPCG(o.Seed, uint64(i))), more: make(chan struct{}, 1), stop: make(chan struct{})}
		l.ways[i] = d
		l.wg.Go(d.read)
		l.wg.Go(d.deliver)
	}
	return l, nil
}

// Set gives both directions other conditions from now on.
func (l *Link) Set(c Conditions) {
	for _, d := range l.ways {
		d.mu.Lock()
		d.is = c
		d.mu.Unlock()
	}
}

// Counts is how many packets were passed on and lost, in both directions.
func (l *Link) Counts() (passed, lost int) {
	for _, d := range l.ways {
		d.mu.Lock()
		passed += d.passed
		lost += d.lost
		d.mu.Unlock()
	}
	return passed, lost
}

func (l *Link) close() {
	for i, d := range l.ways {
		close(d.stop)
		_ = l.ends[i].Close()
	}
	l.wg.Wait()
}

// direction is one way of a link.
type direction struct {
	from, to *os.File

	mu           sync.Mutex
	is           Conditions
	rand         *rand.Rand
	busy         time.Time // the rate's, until then
	passed, lost int
	waiting      packets

	more chan struct{} // something was added to waiting
	stop chan struct{}
}

// packet is one that is on its way.
type packet struct {
	due time.Time
	n   int // of those with the same time
	p   []byte
}

// read takes packets until the device is closed.
func (d *direction) read() {
	buffer := make([]byte, 64<<10)
	for n := 0; ; n++ {
		length, err := d.from.Read(buffer)
		if err != nil {
			return
		}
		due := d.fate(length, time.Now())
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
		case d.more <- struct{}{}:
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
			// A host whose device takes no more loses it.
			_, _ = d.to.Write(p.p)
		}
		t.Reset(wait)
		select {
		case <-t.C:
		case <-d.more:
		case <-d.stop:
			return
		}
	}
}

// packets is a heap of those that are due first.
type packets []packet

func (p packets) Len() int { return len(p) }
func (p packets) Less(i, j int) bool {
	if p[i].due.Equal(p[j].due) {
		return p[i].n < p[j].n
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
