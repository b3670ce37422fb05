package access

import (
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// User is a person behind a key. The zero value is nobody: the key does not tell its users apart, or the request names
// none.
type User struct {
	Name    string // in logs and in the ledger
	Account string // identifies what the user uses among the users of the key; it contains nothing of the name
}

// Headers are the headers of a request. *fasthttp.RequestHeader implements it.
type Headers interface{ PeekAll(name string) [][]byte }

// FindUser returns the user that a request with a key that has Users names, or an error if the name is not valid, or
// missing and required. doc is the request's body, and salt that of pseudonyms.
func (k *Key) FindUser(headers Headers, doc *jsondoc.Doc, salt string) (User, *apierror.Error) {
	name, from, e := findUser(k.users, headers, doc)
	switch {
	case e != nil:
		return User{}, e
	case name == "" && k.users.Required:
		return User{}, apierror.Invalid("missing_user", from, "The request does not say which user it is for. Set %s.", from)
	case name == "":
		return User{}, nil
	case !config.PrincipalName(name):
		return User{}, apierror.Invalid("invalid_user", from, "The name of the user has more than %d bytes, or characters that a name must not have.", config.MaxPrincipal)
	}
	return k.NamedUser(name, salt), nil
}

// NamedUser returns the user of this name of a key that has Users.
func (k *Key) NamedUser(name, salt string) User {
	of := "key\x00" + k.name
	u := User{Name: name, Account: AccountHash(of, name)}
	if k.users.Pseudonym {
		u.Name = Pseudonym(salt, of, name)
	}
	return u
}

// findUser returns the name of the user, and where requests name it.
func findUser(u *config.Users, headers Headers, doc *jsondoc.Doc) (name, from string, e *apierror.Error) {
	if u.Header == "" {
		id, member := clientapi.UserID(doc)
		switch {
		case !id.Exists():
			return "", "user", nil
		case id.Kind() != jsondoc.String:
			return "", "", apierror.Invalid("invalid_user", member, "The name of the user is not a string.")
		}
		return id.Text(), member, nil
	}
	values := headers.PeekAll(u.Header)
	if len(values) > 1 {
		return "", "", apierror.Invalid("invalid_user", u.Header, "The request has more than one header %s.", u.Header)
	}
	for _, v := range values {
		name = string(trim(v))
	}
	return name, u.Header, nil
}
