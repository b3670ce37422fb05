package estimate

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// requestedTier returns the service tier that a request asks for, "" if it does not, or asks for fast mode, whose tier is the provider's
// to name.
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

// anyTier is a service tier that stands for every one: the provider decides.
const anyTier = "auto"

// OptionsTier returns the service tier that the options of a target ask for, whatever the client does: "" if they leave it to the
// client, and anyTier where it is not to be told which one it is, as where they remove what the client asks for.
func OptionsTier(options json.RawMessage) string {
	var d jsondoc.Doc
	if len(options) == 0 || d.Parse(options, jsondoc.Limits{}) != nil {
		return ""
	}
	return findTier(d.Root(), "")
}

// findTier returns the service tier that a value among a target's options asks for; found is that of those before it.
func findTier(v jsondoc.Value, found string) string {
	for c := v.First(); c.Exists(); c = c.Next() {
		asked, name := "", c.Name().Text()
		switch {
		case isServiceTier(name) && c.Kind() == jsondoc.String:
			asked = cmp.Or(c.Text(), anyTier)
		case strings.HasSuffix(strings.ToLower(name), "tier"), name == "speed":
			asked = anyTier
		case c.Kind() == jsondoc.String && isServiceTier(strings.TrimPrefix(c.Text(), "/")): // a member to remove or to rename
			asked = anyTier
		default:
			found = findTier(c, found)
			continue
		}
		if found != "" && found != asked {
			asked = anyTier
		}
		found = asked
	}
	return found
}

// isServiceTier reports whether a name is one that client APIs have for the service tier.
func isServiceTier(name string) bool { return name == "service_tier" || name == "serviceTier" }
