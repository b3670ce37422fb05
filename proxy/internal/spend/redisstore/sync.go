package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// tags is the number of hash tags that scopes are distributed over.
const tags = 16

// How long keys are kept after the end of a window, and without a report.
const (
	keptAfter = time.Hour
	keptIdle  = 24 * time.Hour
)

// script is a Lua script with its SHA-1, which EVALSHA refers to it by.
type script struct{ text, sum string }

// newScript returns a script whose errors about the data of a key begin with damagedPrefix and the key. at is the key
// that the text is about to use, at first the first one.
func newScript(text string) script {
	text = "local at = KEYS[1]\nlocal function apply()\n" + text + `end
local ok, result = pcall(apply)
if ok then return result end
local text = type(result) == 'table' and result.err or tostring(result)
if string.find(text, 'WRONGTYPE') or string.find(text, 'attempt to ') or string.find(text, 'bad argument') then
	text = 'DAMAGED ' .. at .. ': ' .. text
end
return {err = text}`
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed sync.lua
	syncText string
	//go:embed credit.lua
	creditText string

	syncScript, creditScript = newScript(syncText), newScript(creditText)
)

// execution is one call of a script.
type execution struct {
	tag        int
	keys, args []string
}

// command returns the command that runs the script: EVAL with its text if whole, otherwise EVALSHA.
func (e *execution) command(b rueidis.Builder, s *script, whole bool) rueidis.Completed {
	if whole {
		return b.Eval().Script(s.text).Numkeys(int64(len(e.keys))).Key(e.keys...).Arg(e.args...).Build()
	}
	return b.Evalsha().Sha1(s.sum).Numkeys(int64(len(e.keys))).Key(e.keys...).Arg(e.args...).Build()
}

// execute runs a script in one round trip, or in two if a server does not have it cached. The result of each execution
// is an array or an error.
func (s *Store) execute(ctx context.Context, script *script, all []execution) ([]rueidis.RedisResult, error) {
	results, err := s.call(ctx, func(b rueidis.Builder) rueidis.Commands {
		commands := make(rueidis.Commands, len(all))
		for i := range all {
			commands[i] = all[i].command(b, script, false)
		}
		return commands
	})
	if err != nil {
		return nil, err
	}
	var unknown []int
	for i := range results {
		if e, is := rueidis.IsRedisErr(results[i].Error()); is && e.IsNoScript() {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return results, nil
	}
	again, err := s.call(ctx, func(b rueidis.Builder) rueidis.Commands {
		commands := make(rueidis.Commands, len(unknown))
		var sent [tags]bool // executions of a tag go to one server, in this order
		for i, at := range unknown {
			e := &all[at]
			commands[i] = e.command(b, script, !sent[e.tag])
			sent[e.tag] = true
		}
		return commands
	})
	if err != nil {
		return nil, err
	}
	for i, at := range unknown {
		results[at] = again[i]
	}
	return results, nil
}

// Sync implements spend.Store.
func (s *Store) Sync(ctx context.Context, reports []spend.Report, replies []spend.Reply) error {
	for first := true; first || len(reports) > 0; first = false {
		n := min(len(reports), maxBatch)
		if err := s.sync(ctx, reports[:n], replies[:n]); err != nil {
			return err
		}
		reports, replies = reports[n:], replies[n:]
	}
	return nil
}

func (s *Store) sync(ctx context.Context, reports []spend.Report, replies []spend.Reply) error {
	now := time.Now()
	all := make([]execution, 0, len(reports)+tags)
	var asked [tags]bool
	s.mu.Lock()
	for i := range reports {
		e := s.report(&reports[i])
		asked[e.tag] = true
		all = append(all, e)
	}
	for t := range asked {
		if !asked[t] && now.Sub(s.tags[t].asked) >= checkEvery {
			all = append(all, execution{tag: t, keys: []string{s.tagKey(t)}, args: s.head(t, &spend.Report{})})
		}
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	results, err := s.execute(ctx, &syncScript, all)
	if err != nil {
		return err
	}
	for i := range results {
		values, err := results[i].AsIntSlice()
		if err == nil && len(values) < replyHead {
			err = fmt.Errorf("%d values", len(values))
		}
		if err != nil && i >= len(reports) {
			continue // a node of the Cluster is down; the other nodes can be used
		}
		if err := damaged(err); err != nil {
			replies[i] = spend.Reply{Err: fmt.Errorf("store: report of %s: %w", reports[i].Scope, err), Counters: replies[i].Counters[:0]}
			continue
		}
		if err != nil {
			return fmt.Errorf("store: report of %s: %w", reports[i].Scope, err)
		}
		s.learn(all[i].tag, values, now)
		if i < len(reports) {
			if err := decode(values, &reports[i], &replies[i]); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	lost := s.lost
	s.lost = s.lost && len(reports) == 0
	s.mu.Unlock()
	for i := range replies {
		replies[i].Lost = replies[i].Lost || lost
	}
	return nil
}

const damagedPrefix = "DAMAGED "

// damaged returns a spend.ErrDamaged that names the key if a script's error is about the data of a key, otherwise nil.
func damaged(err error) error {
	if e, is := rueidis.IsRedisErr(err); is {
		if text, is := strings.CutPrefix(e.Error(), damagedPrefix); is {
			return fmt.Errorf("%w: %s", spend.ErrDamaged, text)
		}
	}
	return nil
}

// learn updates the generation of a tag from a reply.
func (s *Store) learn(t int, values []int64, asked time.Time) {
	generation, recovering := values[1], values[4] == 1
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.tags[t]
	if k.generation != generation {
		s.lost = s.lost || recovering || k.generation != 0
		k.generation = generation
	}
	k.asked = asked
}

// report returns the execution for a report. The caller holds s.mu.
func (s *Store) report(r *spend.Report) execution {
	scope := scopeName(r.Scope)
	t := scopeTag(scope)
	e := execution{tag: t, keys: make([]string, 0, 2+len(r.Counters)), args: s.head(t, r)}
	e.keys = append(e.keys, s.tagKey(t))
	if len(r.Counters) == 0 {
		return e
	}
	e.keys = append(e.keys, e.keys[0]+":gateways:"+scope)
	kept := int64(-keptIdle / time.Millisecond)
	for i := range r.Counters {
		c := &r.Counters[i]
		until := counterKept(c.Of, &c.Window)
		if until == 0 || kept < 0 && until > 0 || kept > 0 && until > kept {
			kept = until
		}
		if kept == 0 {
			break
		}
	}
	e.args[headKept] = format(kept)
	for i := range r.Counters {
		c := &r.Counters[i]
		e.keys = append(e.keys, e.keys[0]+counterKey(scope, c.Of, &c.Window))
		start, end := millis(&c.Window)
		e.args = append(e.args, format(int64(c.Of)), format(start), format(end), format(c.Limit), format(c.Granted), format(c.Used),
			format(c.Want), format(c.Least), strconv.FormatFloat(c.Share, 'g', -1, 64), format(c.Level), format(counterKept(c.Of, &c.Window)))
	}
	return e
}

// headKept is the index of the argument with the time until which the key of the scope is kept.
const headKept = 7

// head returns the arguments of the script that come before those of counters. The caller holds s.mu.
func (s *Store) head(t int, r *spend.Report) []string {
	args := make([]string, 0, 8+11*len(r.Counters))
	return append(args, format(r.Lease.Milliseconds()), r.Instance, format(r.Number), format(r.First), format(r.Acknowledged),
		format(s.tags[t].generation), format(s.recovery.Milliseconds()), "0")
}

func (s *Store) tagKey(t int) string { return "{" + s.prefix + "-" + strconv.Itoa(t) + "}" }

func scopeName(s spend.Scope) string { return s.Kind.String() + ":" + s.Name }

func scopeTag(scope string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(scope))
	return int(h.Sum32() % tags)
}

var counterNames = [...]string{spend.Money: "money", spend.Requests: "requests", spend.Tokens: "tokens", spend.Concurrent: "concurrent"}

// counterKey returns the key of a counter without the prefix for the tag.
func counterKey(scope string, k spend.CounterKind, w *spend.Window) string {
	key := ":" + counterNames[k]
	if k == spend.Money {
		key += ":" + w.Per.String()
		if w.Per != config.PerTotal {
			key += ":" + w.Start.UTC().Format("20060102T1504")
		}
	}
	return key + ":" + scope
}

// counterKept returns until when a counter is kept, as an argument for the script: Unix time in milliseconds or, if
// negative, milliseconds from now; 0 means forever.
func counterKept(k spend.CounterKind, w *spend.Window) int64 {
	switch {
	case k != spend.Money:
		return int64(-keptIdle / time.Millisecond)
	case w.Per == config.PerTotal:
		return 0
	}
	return w.End.Add(keptAfter).UnixMilli()
}

func millis(w *spend.Window) (start, end int64) {
	if w.Per == config.PerTotal || w.End.IsZero() {
		return 0, 0
	}
	return w.Start.UnixMilli(), w.End.UnixMilli()
}

func format(n int64) string { return strconv.FormatInt(n, 10) }

// A reply of the script has replyHead values, and replyCounter values for each counter.
const replyHead, replyCounter = 5, 5

// decode reads the reply of a report.
func decode(values []int64, r *spend.Report, reply *spend.Reply) error {
	*reply = spend.Reply{Time: time.UnixMilli(values[0]), Counters: reply.Counters[:0]}
	reply.Number, reply.Stale, reply.Lost = values[2], values[3] == 1, values[4] == 1
	if reply.Stale {
		return nil
	}
	values = values[replyHead:]
	if len(values) != replyCounter*len(r.Counters) {
		return fmt.Errorf("store: report of %s: unexpected reply with %d values for %d counters", r.Scope, len(values), len(r.Counters))
	}
	for ; len(values) > 0; values = values[replyCounter:] {
		reply.Counters = append(reply.Counters, spend.Granted{
			Granted: values[0], Taken: values[1], Used: values[2], Credit: values[3], Retry: time.Duration(values[4]) * time.Millisecond,
		})
	}
	return nil
}

// Credit implements spend.Store.
func (s *Store) Credit(ctx context.Context, scope spend.Scope, w spend.Window, amount cost.Nano, id string) error {
	name := scopeName(scope)
	t := scopeTag(name)
	start, end := millis(&w)
	results, err := s.execute(ctx, &creditScript, []execution{{
		tag: t, keys: []string{s.tagKey(t) + counterKey(name, spend.Money, &w)},
		args: []string{id, format(int64(amount)), format(start), format(end), format(counterKept(spend.Money, &w))},
	}})
	if err != nil {
		return err
	}
	if err := results[0].Error(); err != nil {
		err = cmp.Or(damaged(err), err)
		return fmt.Errorf("store: credit of %s: %w", scope, err)
	}
	return nil
}
