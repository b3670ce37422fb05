package estimate

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// requestedTier returns the service tier that a request asks for, or "" if it asks for none, or for fast mode, for
// which the provider chooses the tier.
func requestedTier(r clientapi.Request) string {
	doc, _ := r.Document()
	root := doc.Root()
	if root.Get("speed").Exists() {
		return ""
	}
	for _, name := range [...]string{"service_tier", "serviceTier"} {
		if tier := root.Get(name); tier.Kind() == jsondoc.String {
			return string(tier.AppendText(nil))
		}
	}
	return ""
}

// anyTier is the service tier that lets the provider choose.
const anyTier = "auto"

// OptionsTier returns the service tier that a target's options set regardless of the client: "" if they leave it to the
// client, and anyTier if the tier cannot be determined, for example because they remove the client's member.
func OptionsTier(options json.RawMessage) string {
	var d jsondoc.Doc
	if len(options) == 0 || d.Parse(options, jsondoc.Limits{}) != nil {
		return ""
	}
	return findTier(d.Root(), "")
}

// findTier returns the service tier that a value in a target's options sets, combined with found, the tier of the
// values before it.
func findTier(v jsondoc.Value, found string) string {
	for c := v.First(); c.Exists(); c = c.Next() {
		tier, name := "", c.Name().Text()
		switch {
		case isServiceTier(name) && c.Kind() == jsondoc.String:
			tier = cmp.Or(c.Text(), anyTier)
		case strings.HasSuffix(strings.ToLower(name), "tier"), name == "speed":
			tier = anyTier
		case c.Kind() == jsondoc.String && isServiceTier(strings.TrimPrefix(c.Text(), "/")): // a member to remove or to rename
			tier = anyTier
		default:
			found = findTier(c, found)
			continue
		}
		if found != "" && found != tier {
			tier = anyTier
		}
		found = tier
	}
	return found
}

// isServiceTier reports whether name is a client API's name for the service tier.
func isServiceTier(name string) bool { return name == "service_tier" || name == "serviceTier" }
