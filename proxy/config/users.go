package config

import (
	"reflect"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Users is how the people behind a client key are told apart. Each has limits and budgets of their own, besides those of
// the key.
type Users struct {
	Bounds
	Header    string // header that names the user, in lower case; "" if the body does
	Required  bool   // requests that name no user are rejected
	Pseudonym bool   // names are replaced by hashes of them, with Router.Salt
	Max       int    // users that are counted separately at a time
}

// usersFromBody is the value of keys[].users.from for users that the body names.
const usersFromBody = "body"

// The range and the default of keys[].users.max.
const (
	maxUsers     = 1_000_000
	defaultUsers = 100_000
)

// users reads the table users of a key. It is nil if there is none.
func (l *loader) users(parent *table) *Users {
	t := parent.table("users")
	defer t.finish()
	if t.n == nil {
		return nil
	}
	u := new(Users)
	switch from, n := t.required("from"); {
	case n == nil || from == usersFromBody:
	case !httpfield.ValidName(from):
		t.fail(n, "from", `%s is invalid: want the name of a header such as "x-user-id", or "body"`, show(n))
	case l.checkReadable(from) != nil:
		t.fail(n, "from", "%s: %v", show(n), l.checkReadable(from))
	default:
		u.Header = strings.ToLower(from)
	}
	u.Limits, u.Budgets = l.bounds(&t, "user", "")
	u.Required = t.bool("required", false)
	u.Pseudonym = t.bool("pseudonym", false)
	u.Max = int(t.integer("max", defaultUsers, 1, maxUsers))
	if u.Pseudonym {
		l.pseudonyms = append(l.pseudonyms, t)
	}
	return u
}

// equal reports whether two keys tell their users apart in the same way.
func (u *Users) equal(o *Users) bool { return u == o || reflect.DeepEqual(u, o) }
