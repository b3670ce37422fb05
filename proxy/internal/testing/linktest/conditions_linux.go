package linktest

import "time"

// Conditions are what a link does to the packets of one direction. The zero value passes them on at once.
type Conditions struct {
	Loss      float64       // share of the packets that are lost
	Duplicate float64       // share of the packets that come twice
	Delay     time.Duration // of each packet,
	Jitter    time.Duration // and up to so much more or less, which changes their order
	Rate      int           // bytes a second; 0: no limit
	Queue     int           // bytes that may wait for the rate; those beyond are lost
	MTU       int           // longer packets are lost, and nobody says so; 0: none are
	Down      bool          // all packets are lost
}

// fate is what becomes of a packet: how often it is delivered, and when.
func (d *direction) fate(length int, now time.Time) (due []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.is
	if c.Down || c.MTU > 0 && length > c.MTU || c.Loss > 0 && d.rand.Float64() < c.Loss {
		d.lost++
		return nil
	}
	at := now
	if c.Rate > 0 {
		at = d.busy
		if at.Before(now) {
			at = now
		}
		if waiting := int(at.Sub(now).Seconds() * float64(c.Rate)); c.Queue > 0 && waiting+length > c.Queue {
			d.lost++
			return nil
		}
		at = at.Add(time.Duration(float64(length) / float64(c.Rate) * float64(time.Second)))
		d.busy = at
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
