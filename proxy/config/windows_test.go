package config_test

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestWindows compares windows with what the clocks of their zone show: of all zones over two years, and around each
// change of a clock since 1970.
func TestWindows(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "America/Santiago", "America/Havana", "Asia/Beirut", "Atlantic/Azores", "Australia/Lord_Howe", "Asia/Kathmandu"}
	from, until := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC)
	if !testing.Short() { // reading the clocks of all zones takes seconds
		zones = zoneNames(t)
		from, until = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		checkWindows(t, zone, from, until)
		for changed := time.Unix(0, 0).In(zone); !testing.Short(); {
			if _, changed = changed.ZoneBounds(); changed.IsZero() || changed.After(from) {
				break
			}
			around := changed.UTC().Truncate(time.Hour)
			checkWindows(t, zone, around.Add(-50*time.Hour), around.Add(50*time.Hour))
		}
	}
}

// zoneNames returns the names of all zones in the database of the Go distribution.
func zoneNames(t *testing.T) (names []string) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	database, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	for _, f := range database.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	if len(names) < 500 {
		t.Fatalf("%d zones in the database", len(names))
	}
	return names
}

// checkWindows reads the clock of a zone every quarter of an hour. A day, and with it a week or month, must begin when
// the clock first shows its date, and hours and minutes must follow one another.
func checkWindows(t *testing.T, zone *time.Location, from, until time.Time) {
	t.Helper()
	date := func(at time.Time) int { y, m, d := at.In(zone).Date(); return y*10000 + int(m)*100 + d }
	week := func(date int) int {
		// Days since Monday, 1 January 1900, divided by seven.
		return int(time.Date(date/10000, time.Month(date/100%100), date%100, 0, 0, 0, 0, time.UTC).Unix()/86400+25567) / 7
	}
	begins := make(map[config.Period][]time.Time)
	latest := date(from)
	var hourEnd time.Time
	for at := from; at.Before(until); at = at.Add(15 * time.Minute) {
		for per := config.PerMinute; per < config.PerDay && !at.Before(hourEnd); per++ {
			start, end := per.Window(at, zone)
			last, _ := per.Window(end.Add(-1), zone)
			next, _ := per.Window(end, zone)
			if at.Before(start) || !at.Before(end) || end.Sub(start) > time.Hour || !last.Equal(start) || !next.Equal(end) {
				t.Fatalf("%s, per %s: window of %s from %s to %s, next from %s", zone, per, at, start, end, next)
			}
			if per == config.PerHour {
				hourEnd = end
			}
		}
		if date(at) <= latest {
			continue // also if the clock was set back across midnight
		}
		seconds := sort.Search(15*60, func(n int) bool { return date(at.Add(-time.Duration(n+1)*time.Second)) <= latest })
		begin, before := at.Add(-time.Duration(seconds)*time.Second), latest
		latest = date(at)
		begins[config.PerDay] = append(begins[config.PerDay], begin)
		if week(latest) != week(before) {
			begins[config.PerWeek] = append(begins[config.PerWeek], begin)
		}
		if latest/100 != before/100 {
			begins[config.PerMonth] = append(begins[config.PerMonth], begin)
		}
	}
	for per, all := range begins {
		for i, end := range all[1:] {
			for _, at := range []time.Time{all[i], all[i].Add(end.Sub(all[i]) / 2), end.Add(-time.Hour), end.Add(-1)} {
				if start, next := per.Window(at, zone); !start.Equal(all[i]) || !next.Equal(end) {
					t.Fatalf("%s, per %s: the window of %s is from %s to %s, want %s to %s", zone, per, at.In(zone), start, next, all[i].In(zone), end.In(zone))
				}
			}
		}
	}
}
