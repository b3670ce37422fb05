package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

// startDeployed starts a server with the configuration of examples/deploy after replacing pairs of strings in it.
func startDeployed(t *testing.T, changes ...string) *redistest.Server {
	t.Helper()
	redistest.Need(t)
	text, err := os.ReadFile("../../../../examples/deploy/redis.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(append(changes, "REDIS_PASSWORD", "opensesame")...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return redistest.Start(t, redistest.Options{Config: file})
}

// TestLeastPrivilege runs every path of the scripts as the user of examples/deploy, which has only the permissions that
// they need.
func TestLeastPrivilege(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 600 round trips")
	}
	s := open(t, storeConfig("redis://sluice:opensesame@"+startDeployed(t).Addr), 0)
	start := time.Now().Add(-time.Minute).Truncate(time.Minute)
	window := spend.Window{Per: config.PerHour, Start: start, End: start.Add(time.Hour)}
	r := spend.Report{Scope: scope, First: 1, Lease: time.Millisecond, Number: 1}
	for i := range 600 { // more gateways than the store keeps records of
		r.Instance = fmt.Sprint("g", i)
		r.Counters = []spend.Counter{
			money(1000, 0, 0, 1), {Of: spend.Money, Window: window, Limit: 1000, Want: 1, Least: 1},
			{Of: spend.Requests, Limit: 1000, Want: 1, Least: 1}, {Of: spend.Concurrent, Limit: 1000, Want: 1, Least: 1},
		}
		syncOne(t, s, r)
	}
	if err := s.Credit(context.Background(), scope, window, 5, "1"); err != nil {
		t.Error(err)
	}
	r.Number, r.Counters[0].Want = 2, 0
	if c := syncOne(t, s, r).Counters; c[0].Taken != 599 || c[1].Credit != 5 {
		t.Errorf("got %+v", c)
	}
	// Without one of the permissions, a report fails.
	less := open(t, storeConfig("redis://sluice:opensesame@"+startDeployed(t, " +info", "").Addr), 0)
	if err := less.Sync(context.Background(), []spend.Report{r}, make([]spend.Reply, 1)); err == nil || !strings.Contains(err.Error(), "report of key a: ") {
		t.Errorf("without a permission: got error %v", err)
	}
}

func TestDatabaseAndPrefix(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, &config.Store{URL: config.Secret(server.URL() + "/3"), Prefix: "team-a"}, 0)
	syncOne(t, s, spend.Report{Scope: scope, Instance: "g", Number: 1, Counters: []spend.Counter{money(1, 0, 0, 1)}})
	if keys := server.Do("KEYS", "*"); len(keys) != 0 {
		t.Errorf("database 0 has keys: %q", keys)
	}
	if space := strings.Join(server.Do("INFO", "keyspace"), ""); !strings.Contains(space, "db3:keys="+strconv.Itoa(redisstore.Tags+2)) {
		t.Errorf("database 3: got keyspace %s", space)
	}
}

func TestUnixSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s")
	redistest.Start(t, redistest.Options{Args: []string{"--unixsocket", file}})
	s := open(t, storeConfig("unix://"+file+"?db=2"), 0)
	if c := syncOne(t, s, spend.Report{Scope: scope, Instance: "g", Number: 1, Counters: []spend.Counter{money(1, 0, 0, 1)}}).Counters[0]; c.Granted != 1 {
		t.Errorf("got %+v", c)
	}
}

// TestOpensConfiguredURLs opens a store for each form of URL that package config accepts.
func TestOpensConfiguredURLs(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:1", "redis://:pass%2fword@127.0.0.1:1/0", "rediss://user:pass@[::1]:1?db=7", "redis://127.0.0.1:1?addr=127.0.0.1:2&addr=127.0.0.1:3",
		"rediss://:pass@127.0.0.1:1/2?addr=127.0.0.1:2&master_set=mymaster", "unix:///no/such/socket?db=1",
	} {
		if _, err := config.Parse("gateway.toml", []byte("[store]\nurl = \""+url+"\"\n"), config.Options{}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		s, err := redisstore.Open(storeConfig(url))
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		s.Close()
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	files := certificate(t, dir)
	server := redistest.Start(t, redistest.Options{TLS: files})
	syncOne(t, open(t, &config.Store{URL: config.Secret(server.URL()), CA: files.CA, Prefix: "sluice"}, 0), spend.Report{Scope: scope})
	unknown, err := redisstore.Open(storeConfig(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	wait(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		err := unknown.Sync(ctx, []spend.Report{{Scope: scope}}, make([]spend.Reply, 1))
		return err != nil && strings.Contains(err.Error(), "x509: ")
	})
	if _, err := redisstore.Open(&config.Store{URL: config.Secret(server.URL()), CA: files.Key, Prefix: "sluice"}); err == nil {
		t.Error("a file without certificates was accepted as CA")
	}
}

// certificate creates a CA, and a certificate that it signed for the loopback address.
func certificate(t *testing.T, dir string) *redistest.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"}, NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &redistest.TLS{Cert: write("redis.crt", "CERTIFICATE", der), Key: write("redis.key", "PRIVATE KEY", private), CA: write("ca.crt", "CERTIFICATE", root)}
}

// TestCluster uses three nodes, and the other two after one has died.
//
// covers: F72
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("waits seconds for the nodes to form a cluster")
	}
	var nodes [3]*redistest.Server
	for i := range nodes {
		nodes[i] = redistest.Start(t, redistest.Options{Cluster: true, Args: []string{"--cluster-require-full-coverage", "no"}})
		slots := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i; slot < 16384; slot += len(nodes) { // round robin, so that tags are spread over the nodes
			slots = append(slots, strconv.Itoa(slot))
		}
		nodes[i].Do(slots...)
		nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for _, n := range nodes[1:] {
		nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", port(n.Addr))
	}
	for _, n := range nodes {
		wait(t, func() bool {
			return strings.Contains(n.Do("CLUSTER", "INFO")[0], "cluster_state:ok") && strings.Contains(n.Do("CLUSTER", "INFO")[0], "cluster_known_nodes:3")
		})
	}
	s := open(t, storeConfig(nodes[0].URL()+"?addr="+nodes[1].Addr), 0)
	const scopes = 100
	reports, replies := make([]spend.Report, scopes), make([]spend.Reply, scopes)
	for i := range reports {
		reports[i] = spend.Report{Scope: spend.Scope{Kind: spend.Model, Name: fmt.Sprintf("m{%d}", i)}, Instance: "g", Lease: time.Hour, Number: 1, Counters: []spend.Counter{
			money(10, 0, 0, 7), {Of: spend.Requests, Limit: 10, Want: 1, Least: 1},
		}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := s.Sync(ctx, reports, replies); err != nil {
		t.Fatal(err)
	}
	for i := range replies {
		if c := replies[i].Counters; replies[i].Lost || c[0].Granted != 7 || c[1].Granted != 1 {
			t.Fatalf("%s: got %+v", reports[i].Scope, replies[i])
		}
	}
	for _, n := range nodes {
		if keys := len(n.Do("KEYS", "*money*")); keys == 0 || keys == scopes {
			t.Errorf("a node has %d of %d budgets, want some but not all", keys, scopes)
		}
	}
	// Scopes on the other nodes can be used while one node is down.
	nodes[2].Kill()
	served, failed := 0, 0
	for i := range reports {
		reports[i].Number++
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if err := s.Sync(ctx, reports[i:i+1], replies[i:i+1]); err == nil {
			served++
		} else {
			failed++
		}
		cancel()
		if served >= 10 && failed >= 1 {
			break
		}
	}
	if served < 10 || failed == 0 {
		t.Errorf("with two of three nodes: %d reports succeeded and %d failed", served, failed)
	}
}

// TestSentinel uses the master found through a sentinel, before and after a failover.
//
// covers: F72
func TestSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("waits seconds for a failover")
	}
	master := redistest.Start(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	replica := redistest.Start(t, redistest.Options{Args: []string{"--replicaof", "127.0.0.1 " + port(master.Addr)}})
	sentinel := redistest.Start(t, redistest.Options{Sentinel: "mymaster 127.0.0.1 " + port(master.Addr) + " 1"})
	wait(t, func() bool {
		return strings.Contains(strings.Join(master.Do("INFO", "replication"), ""), "state=online")
	})
	wait(t, func() bool { return len(sentinel.Do("SENTINEL", "REPLICAS", "mymaster")) > 0 })
	g := newGateway(t, "redis://"+sentinel.Addr+"?master_set=mymaster", "a")
	g.request(10)
	if g.granted != 10 || len(master.Do("KEYS", "*money*")) != 1 {
		t.Fatalf("granted %d, want 10", g.granted)
	}
	master.Kill()
	if r := g.request(20); r.Counters[0] != (spend.Granted{Granted: 30, Taken: 30}) {
		t.Errorf("after the failover: got %+v", r)
	}
	if keys := len(replica.Do("KEYS", "*money*")); keys != 1 {
		t.Errorf("the new master has %d budgets, want 1", keys)
	}
}
