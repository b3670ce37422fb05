package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

// BenchmarkSync measures reports of a scope with budgets per day and per month and both rates, one at a time and 64 in
// a pipeline, and the memory of a scope in Redis.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("reports=%d", n), func(b *testing.B) {
			server := redistest.Start(b, redistest.Options{})
			s := open(b, storeConfig(server.URL()), 0)
			now := time.Now().UTC()
			window := func(p config.Period) spend.Window {
				start, end := p.Window(now, time.UTC)
				return spend.Window{Per: p, Start: start, End: end}
			}
			reports, replies := make([]spend.Report, n), make([]spend.Reply, n)
			for i := range reports {
				reports[i] = spend.Report{Scope: spend.Scope{Kind: spend.Key, Name: fmt.Sprintf("team-%d", i)}, Instance: "LBXNM4QAYVDCNNJ3NHXYAPUQ3K", First: now.UnixMicro(), Number: now.UnixMicro(), Lease: 10 * time.Second, Counters: []spend.Counter{
					{Of: spend.Money, Window: window(config.PerDay), Limit: 1e15, Granted: 123_456_789, Used: 23_456_789, Want: 1, Least: 1},
					{Of: spend.Money, Window: window(config.PerMonth), Limit: 1e15, Granted: 123_456_789, Used: 23_456_789, Want: 1, Least: 1},
					{Of: spend.Requests, Limit: 1e6, Granted: 100, Used: 50, Want: 1, Least: 1},
					{Of: spend.Tokens, Limit: 1e9, Granted: 100_000, Used: 50_000, Want: 1, Least: 1},
				}}
			}
			before := processorTime(server)
			for b.Loop() {
				for i := range reports {
					reports[i].Number++
				}
				if err := s.Sync(context.Background(), reports, replies); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(server)-before).Microseconds())/float64(b.N*n), "server-µs/report")
			size := 0
			for _, key := range server.Do("KEYS", "*:key:team-0") {
				var bytes int
				fmt.Sscan(server.Do("MEMORY", "USAGE", key)[0], &bytes)
				size += bytes
			}
			b.ReportMetric(float64(size), "B/scope")
		})
	}
}

// processorTime returns the CPU time that the server has used.
func processorTime(s *redistest.Server) (sum time.Duration) {
	for line := range strings.Lines(s.Do("INFO", "cpu")[0]) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, _ := strconv.ParseFloat(text, 64)
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}
