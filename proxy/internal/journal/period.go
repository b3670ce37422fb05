package journal

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Periods are the values of Query.Period.
var Periods = []string{"today", "yesterday", "this-week", "last-week", "this-month", "last-month"}

// days returns the first and the last day of a query. Weeks begin on Monday.
func (q *Query) days(zone *time.Location) (from, to int32, err error) {
	now := q.Now
	if now.IsZero() {
		now = time.Now()
	}
	today := dayNumber(now, zone)
	if q.Period != "" {
		if q.Since != "" || q.Until != "" {
			return 0, 0, queryError("set a period, or its first and last day, not both")
		}
		return period(q.Period, today)
	}
	from, to = math.MinInt32, math.MaxInt32
	if q.Since != "" {
		if from, err = relativeDay(q.Since, today); err != nil {
			return 0, 0, err
		}
	}
	if q.Until != "" {
		if to, err = relativeDay(q.Until, today); err != nil {
			return 0, 0, err
		}
	}
	return from, to, nil
}

// weekday returns the weekday of a day, counted from Monday as 0. Day 0 was a Thursday.
func weekday(day int32) int32 { return ((day+3)%7 + 7) % 7 }

func period(name string, today int32) (from, to int32, err error) {
	monday := today - weekday(today)
	first := func(months int) int32 {
		y, m, _ := time.Unix(int64(today)*86400, 0).UTC().Date()
		return int32(time.Date(y, m+time.Month(months), 1, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	}
	switch name {
	case "today":
		return today, today, nil
	case "yesterday":
		return today - 1, today - 1, nil
	case "this-week":
		return monday, monday + 6, nil
	case "last-week":
		return monday - 7, monday - 1, nil
	case "this-month":
		return first(0), first(1) - 1, nil
	case "last-month":
		return first(-1), first(0) - 1, nil
	}
	return 0, 0, queryError("invalid period %q: want %s", name, strings.Join(Periods, ", "))
}

var weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// relativeDay returns the day that a text names: a date, today, yesterday, the last day with the name of a weekday (which
// may be today), or the day a number of days ago.
func relativeDay(text string, today int32) (int32, error) {
	if n, err := parseDay(text); err == nil {
		return n, nil
	}
	if n := slices.Index(weekdays, strings.ToLower(text)); n >= 0 {
		return today - (weekday(today)-int32(n)+7)%7, nil
	}
	switch text {
	case "today":
		return today, nil
	case "yesterday":
		return today - 1, nil
	}
	if count, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(count, 10, 16); err == nil {
			return today - int32(n), nil
		}
	}
	return 0, queryError("invalid date %q: want YYYY-MM-DD, today, yesterday, a weekday such as monday, or a number of days ago such as 7d", text)
}
