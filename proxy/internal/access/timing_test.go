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

// BenchmarkTimingOfInvalidKeys measures whether the time to reject a key depends on what it has in common with a valid
// key (F130 in docs/proof). Keys of each kind are looked up in random order, together with random keys. t is Welch's t.
// The first kind is random as well, and so shows the machine's noise: a kind is distinguishable only if its t and its
// difference exceed those of the first, with the same sign in every run.
//
//	go test ./proxy/internal/access -run '^$' -bench Timing -benchtime 200000x
func BenchmarkTimingOfInvalidKeys(b *testing.B) {
	const (
		alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		length   = 43
		perKind  = 4096 // different keys of each kind, because a lookup of one key may be faster by chance
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
	k := access.New(all, nil)
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
			// Both kinds are allocated in turn, so that they have the same memory layout.
			headers := make([][2][][]byte, perKind)
			for i := range headers {
				headers[i][0] = [][]byte{[]byte("Bearer sk-sluice-" + random(length))}
				headers[i][1] = [][]byte{[]byte("Bearer sk-sluice-" + kind.make())}
			}
			var samples [2][]float64
			for b.Loop() {
				i := rand.IntN(2)
				header := headers[rand.IntN(perKind)][i]
				began := time.Now()
				_, e := k.Authenticate(header, now)
				took := time.Since(began)
				if e == nil {
					b.Fatal("an invalid key is accepted")
				}
				samples[i] = append(samples[i], float64(took.Nanoseconds()))
			}
			t, difference := welch(cropped(samples[0]), cropped(samples[1]))
			b.ReportMetric(math.Abs(t), "t")
			b.ReportMetric(difference, "ns-apart")
		})
	}
}

// cropped returns the samples without the slowest tenth, which are due to the machine.
func cropped(samples []float64) []float64 {
	slices.Sort(samples)
	return samples[:len(samples)*9/10]
}

// welch returns Welch's t of two samples, and the difference of their means.
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
