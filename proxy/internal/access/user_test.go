package access_test

import (
	"net/http"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

type headers http.Header

func (h headers) PeekAll(name string) (all [][]byte) {
	for _, v := range http.Header(h).Values(name) {
		all = append(all, []byte(v))
	}
	return all
}

// TestUserAccounts checks that the account of a user depends on the key and on the name, says nothing about it, and is the
// same with a pseudonym, which differs between salts.
func TestUserAccounts(t *testing.T) {
	users := &config.Users{Header: "x-user-id"}
	hidden := &config.Users{Header: "x-user-id", Pseudonym: true}
	one, two, three := key("one", "sk-one", "*"), key("two", "sk-two", "*"), key("one", "sk-three", "*")
	one.Users, two.Users, three.Users = users, users, hidden
	find := func(k config.Key, name, salt string) access.User {
		t.Helper()
		found, err := access.New([]config.Key{k}, nil).Named(k.Name, now)
		if err != nil {
			t.Fatal(err)
		}
		u, e := found.FindUser(headers{"X-User-Id": {name}}, new(jsondoc.Doc), salt)
		if e != nil {
			t.Fatal(e)
		}
		return u
	}
	ann := find(one, "ann", "")
	if ann.Name != "ann" || len(ann.Account) != 32 {
		t.Errorf("got %+v", ann)
	}
	if find(one, "bob", "").Account == ann.Account || find(two, "ann", "").Account == ann.Account {
		t.Error("two users have the same account")
	}
	pseudonym := find(three, "ann", "salt")
	if pseudonym.Account != ann.Account || pseudonym.Name == "ann" || pseudonym != find(three, "ann", "salt") || pseudonym.Name == find(three, "ann", "other salt").Name {
		t.Errorf("got pseudonym %+v", pseudonym)
	}
	found, err := access.New([]config.Key{one}, nil).Named("one", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, e := found.FindUser(headers{"X-User-Id": {"ann", "bob"}}, new(jsondoc.Doc), ""); e == nil || e.Code != "invalid_user" {
		t.Errorf("two headers: %v", e)
	}
}
