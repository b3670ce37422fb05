package config

import (
	"net/url"
	"strings"
)

const (
	regionPlaceholder = "{region}" // in a preset's base_url
	// defaultRegion is the region of a provider whose address needs one if none is configured.
	defaultRegion = "us-east-1"
)

// defaultURL returns the address of a provider without base_url, or "" if there is none. standard is the address in its
// preset. A cloud's credential must not be sent to another company, so standard does not apply to one: with Google
// tokens the address depends on the location, and with AWS signatures on the service.
func (l *loader) defaultURL(p *Provider, standard string) string {
	regional := strings.Contains(standard, regionPlaceholder)
	if p.Auth.Google != nil || p.Auth.AWS != nil && !regional {
		return ""
	}
	if !regional {
		return standard
	}
	region := defaultRegion
	if p.Auth.AWS != nil && p.Auth.AWS.Region != "" {
		region = p.Auth.AWS.Region
	} else if named := l.awsRegion(""); named != "" {
		region = named
	}
	return strings.ReplaceAll(standard, regionPlaceholder, region)
}

// checkAddress warns about a base_url that probably gives wrong URLs when the plugin's paths are appended. standard is
// the default address. The warnings do not quote the URL, which may come from a variable.
func (l *loader) checkAddress(t *table, p *Provider, standard string) {
	n := t.lookUp("base_url")
	if n == nil || p.BaseURL == "" {
		return
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil {
		return
	}
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	last := segments[len(segments)-1]
	for _, path := range p.Paths {
		if !strings.Contains(path, "*") && strings.HasSuffix(u.Path, path) {
			t.warn(n, "base_url", "ends in %s, which the plugin appends: remove it", path)
			return
		}
	}
	_, bundled := presets().plugins[p.Plugin]
	switch {
	case p.Plugin == "openai" && last == "" && strings.Contains(standard, "/v1") && !l.knownAddress(p.BaseURL) && !t.hasOption("path"):
		t.warn(n, "base_url", "has no path: most APIs that are compatible with OpenAI's are at /v1")
	case version(last) && len(segments) > 1 && segments[len(segments)-2] == last:
		t.warn(n, "base_url", "ends in /%s/%s", last, last)
	case version(last) && bundled && len(p.Paths) > 0 && p.Plugin != "openai":
		t.warn(n, "base_url", "ends in /%s, to which the plugin appends paths such as %s: remove /%s", last, p.Paths[0], last)
	}
}

// hasOption reports whether the table has an option of that name.
func (t *table) hasOption(name string) bool {
	if !t.has("options") {
		return false
	}
	options := t.lookUp("options")
	return options.kind == kindTable && options.member(name) != nil
}

// knownAddress reports whether an address is the base_url of a preset.
func (l *loader) knownAddress(base string) bool {
	for _, p := range presets().byName {
		if p.baseURL == base {
			return true
		}
	}
	return false
}

// version reports whether a path segment looks like the version of an API, such as v1 or v1beta.
func version(segment string) bool {
	return len(segment) > 1 && segment[0] == 'v' && segment[1] >= '0' && segment[1] <= '9'
}
