package budgets_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// listed is the list of a gateway's budgets in a format.
func listed(t *testing.T, format string, all ...spend.Status) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := budgets.Describe(all, budgets.Filter{}).Write(&text, format); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func TestMerge(t *testing.T) {
	day := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	own := spend.Status{Scope: spend.Scope{Kind: spend.Key, Name: "a"}, Per: config.PerDay, Start: day, End: day.AddDate(0, 0, 1), Limit: 5e9, Raised: -1e9, Spent: 6e9, Uncertain: 1, Held: 3}
	later, elsewhere, other := own, own, own
	later.Start, later.End = day.AddDate(0, 0, 1), day.AddDate(0, 0, 2)
	elsewhere.Spent, elsewhere.Start, elsewhere.End = 2e9, own.Start.In(time.FixedZone("", 3600)), own.End.In(time.FixedZone("", 3600))
	other.Scope.Kind = spend.Team
	shared := spend.Status{Scope: spend.Scope{Kind: spend.Model, Name: "m"}, Per: config.PerTotal, Limit: 10e9, Spent: 4e9, Uncertain: 2, Held: 1e9, Shared: true}
	newer := shared
	newer.Spent, newer.Held, newer.Uncertain = 5e9, 2e9, 3
	parts := []budgets.Part{
		{Gateway: "one:1", Text: listed(t, "json", own, shared)},
		{Gateway: "two:2", Text: listed(t, "json", elsewhere, later, other, newer)},
		{Gateway: "three:3", Text: listed(t, "json", shared)},
	}
	sum, all := own, shared
	sum.Limit, sum.Raised, sum.Spent, sum.Uncertain, sum.Held = 10e9, -2e9, 8e9, 2, 6
	all.Spent, all.Held, all.Uncertain = 5e9, 2e9, 7
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}} {
		var ordered []budgets.Part
		for _, i := range order {
			ordered = append(ordered, parts[i])
		}
		l, err := budgets.Merge(ordered, false)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := l.Write(&got, "csv"); err != nil {
			t.Fatal(err)
		}
		want := listed(t, "csv", sum, all, later, other)
		// What is left is left at the gateway that has it: nothing at the first one, which is above its limit.
		want = bytes.Replace(want, []byte(",0.000000006,1.999999994,"), []byte(",0.000000006,"+cost.Nano(3e9-3).String()+","), 1)
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("got\n%s\nwant\n%s", &got, want)
		}
	}
	l, err := budgets.Merge(parts, true)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := l.Write(&got, "csv"); err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Split(bytes.TrimSpace(got.Bytes()), []byte("\n")); len(lines) != 8 || !bytes.HasSuffix(lines[0], []byte(",shared,gateway")) ||
		!bytes.HasSuffix(lines[1], []byte(",,one:1")) || !bytes.HasSuffix(lines[7], []byte(",true,three:3")) {
		t.Errorf("by gateway:\n%s", &got)
	}
	if _, err := budgets.Merge([]budgets.Part{{Gateway: "one:1", Text: []byte("<p>")}}, false); err == nil {
		t.Error("no error for a document that is not JSON")
	}
}
