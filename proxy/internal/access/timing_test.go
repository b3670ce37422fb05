package access_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
)

// BenchmarkTimingOfInvalidKeys measures whether the time that a wrong key takes says how wrong it is (faults/130). Keys of each
// kind are looked up in random order with keys that have nothing of a good one. t is Welch's. The first kind is no other
// than what it is compared with, and shows what the machine makes of that: only a kind whose t and distance are beyond those
// of the first, with the same sign in run after run, could be told apart.
//
//	go test ./proxy/access -run '^$' -bench Timing -benchtime 200000x
func BenchmarkTimingOfInvalidKeys(b *testing.B) {
	const (
		alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		length   = 43
		kinds    = 4096 // different keys of each kind: one key may happen to be found missing sooner than another
	)
	random := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = alphabet[rand.IntN(len(alphabet))]
		}
		return string(text)
	}
	good := random(length)
	all := []config.Key{key("good", "sk-sluice-"+good, "*")}
	for range 1000 {
		all = append(all, key("other", "sk-sluice-"+random(length), "*"))
	}
	k := access.New(all)
	// other is a character that is not c.
	other := func(c byte) string {
		for {
			if o := random(1); o[0] != c {
				return o
			}
		}
	}
	for _, kind := range []struct {
		name string
		make func() string
	}{
		{"nothing in common", func() string { return random(length) }},
		{"the first byte", func() string { return other(good[0]) + good[1:] }},
		{"any byte", func() string {
			i := rand.IntN(length)
			return good[:i] + other(good[i]) + good[i+1:]
		}},
		{"the second half", func() string { return good[:length/2] + random(length-length/2) }},
		{"all but the first half", func() string { return random(length/2) + good[length/2:] }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			// In one piece, so that both kinds lie in memory alike.
			headers := make([][2][][]byte, kinds)
			for i := range headers {
				headers[i][0] = [][]byte{[]byte("Bearer sk-sluice-" + random(length))}
				headers[i][1] = [][]byte{[]byte("Bearer sk-sluice-" + kind.make())}
			}
			var samples [2][]float64
			for b.Loop() {
				i := rand.IntN(2)
				header := headers[rand.IntN(kinds)][i]
				began := time.Now()
				_, e := k.Authenticate(header, now)
				took := time.Since(began)
				if e == nil {
					b.Fatal("a wrong key is good")
				}
				samples[i] = append(samples[i], float64(took.Nanoseconds()))
			}
			t, difference := welch(cropped(samples[0]), cropped(samples[1]))
			b.ReportMetric(math.Abs(t), "t")
			b.ReportMetric(difference, "ns-apart")
		})
	}
}

// cropped is the samples without the slowest tenth: what took so long was the machine.
func cropped(samples []float64) []float64 {
	slices.Sort(samples)
	return samples[:len(samples)*9/10]
}

// welch is Welch's t of two samples, and how far their means are apart.
func welch(a, b []float64) (t, difference float64) {
	meanA, varA := moments(a)
	meanB, varB := moments(b)
	return (meanA - meanB) / math.Sqrt(varA/float64(len(a))+varB/float64(len(b))), meanA - meanB
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}
