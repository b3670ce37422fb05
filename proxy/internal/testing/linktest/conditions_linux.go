package linktest

import "time"

// Conditions are the conditions of one direction of a link. The zero value delivers packets immediately.
type Conditions struct {
	Loss      float64       // share of packets that are lost
	Duplicate float64       // share of packets that are delivered twice
	Delay     time.Duration // delay of each packet
	Jitter    time.Duration // maximum random deviation from Delay, which reorders packets
	Rate      int           // bytes per second; 0 means unlimited
	Queue     int           // bytes that may wait because of Rate, beyond which packets are lost; 0 means unlimited
	MTU       int           // longer packets are lost, without an ICMP message; 0 means no limit
	Down      bool          // all packets are lost
}

// schedule returns the times at which a packet is delivered: none if it is lost, two if it is duplicated.
func (d *direction) schedule(length int, now time.Time) (due []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.conditions
	if c.Down || c.MTU > 0 && length > c.MTU || c.Loss > 0 && d.rand.Float64() < c.Loss {
		d.lost++
		return nil
	}
	at := now
	if c.Rate > 0 {
		at = d.busyUntil
		if at.Before(now) {
			at = now
		}
		if waiting := int(at.Sub(now).Seconds() * float64(c.Rate)); c.Queue > 0 && waiting+length > c.Queue {
			d.lost++
			return nil
		}
		at = at.Add(time.Duration(float64(length) / float64(c.Rate) * float64(time.Second)))
		d.busyUntil = at
	}
	copies := 1
	if c.Duplicate > 0 && d.rand.Float64() < c.Duplicate {
		copies = 2
	}
	for range copies {
		t := at.Add(c.Delay)
		if c.Jitter > 0 {
			t = t.Add(time.Duration((2*d.rand.Float64() - 1) * float64(c.Jitter)))
		}
		due = append(due, t)
	}
	d.passed++
	return due
}
