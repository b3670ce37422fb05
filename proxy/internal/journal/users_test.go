package journal_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
)

// TestUsersSurviveRestarts checks that users are kept in segments, in the files of days and in snapshots, next to records
// without a user, which look like those from before there were users.
func TestUsersSurviveRestarts(t *testing.T) {
	dir, at := t.TempDir(), noon
	o := journal.Options{Now: func() time.Time { return at }}
	for day := range 3 {
		j := open(t, dir, o)
		for n, user := range []string{"", "ann", "b", "a longer name of a user"} {
			r := request("a", "m", cost.Nano(100+n))
			r.At, r.Labels.User = at, user
			hold := journal.Hold{Request: r.ID, Number: 1, At: at, Amount: 500, Scopes: journal.Labels{Key: "a", User: user}}
			if err := j.Hold(&hold); err != nil {
				t.Fatal(err)
			}
			j.Request(r)
			j.Settle(&journal.Settlement{Request: r.ID, Number: 1, Amount: r.Cost})
		}
		days := cost.Nano(day + 1)
		if got := spent(j); got["user ann"] != 101*days || got["user b"] != 102*days || got["key a"] != 406*days || got["user "] != 0 {
			t.Errorf("day %d: got spending %v", day, got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		got := usage(t, dir, journal.Query{By: []journal.Column{journal.ByUser}})
		if len(got.Rows) != 4 || got.Rows[0].Cost != 100*days || got.Rows[1].Values[0] != "a longer name of a user" || got.Rows[3].Cost != 102*days {
			t.Errorf("day %d: got rows %+v", day, got.Rows)
		}
		at = at.Add(24 * time.Hour)
	}
}
