package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxCredentialFile limits the size of a credentials file, in bytes.
const maxCredentialFile = 1 << 20

// aws reads the AWS credential. off is the reason if there is none. Without configured keys or profile, the SDK finds
// the keys when they are needed; aws only checks whether it will.
func (l *loader) aws(a *table, p *Provider) (off string) {
	t := a.table("aws")
	c := &AWS{}
	region, at := t.text("region")
	if at != nil && region != "" && !cloudName(region) {
		t.fail(at, "region", "%s is not a valid region", show(at))
	}
	service, n := t.text("service")
	if c.Service = "bedrock"; n != nil {
		if c.Service = service; !cloudName(service) {
			t.fail(n, "service", "%s is not a valid service name", show(n))
		}
	}
	var profile *node
	c.Profile, profile = t.text("profile")
	var id, key *node
	part := func(name string, to *Secret) *node {
		s, n := l.secretKey(&t, name)
		if *to = s.Secret; s.File != "" {
			c.Files = append(c.Files, s.File)
		}
		return n
	}
	id, key = part("access_key_id", &c.AccessKeyID), part("secret_access_key", &c.SecretAccessKey)
	part("session_token", &c.SessionToken)
	t.finish()
	p.Auth.AWS = c

	keys := false
	for _, name := range []string{"access_key_id", "secret_access_key", "session_token"} {
		if !t.has(name) {
			continue
		}
		if keys = true; profile != nil {
			t.fail(profile, "profile", "set keys or a profile, not both")
			return ""
		}
	}
	switch {
	case !t.exists():
		return ""
	case profile != nil && c.Profile == "":
		off = profile.whyEmpty("auth.aws.profile")
	case keys:
		for _, m := range []struct {
			name string
			n    *node
		}{{"access_key_id", id}, {"secret_access_key", key}} {
			switch {
			case m.n == nil && !t.has(m.name):
				t.fail(nil, m.name, "is missing")
			case m.n != nil && m.n.text == "" && off == "":
				off = m.n.whyEmpty("auth.aws." + m.name)
			}
		}
	default:
		off = l.findAWS(c.Profile)
	}
	if c.Region = region; c.Region == "" {
		c.Region = l.awsRegion(c.Profile)
	}
	if off == "" && c.Region == "" {
		off = "no AWS region: neither auth.aws.region nor AWS_REGION is set"
	}
	return off
}

// awsRegion returns the region of the environment or the profile.
func (l *loader) awsRegion(profile string) string {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region := l.variable(name); cloudName(region) {
			return region
		}
	}
	if sections := l.awsProfile(l.profileName(profile)); cloudName(sections["region"]) {
		return sections["region"]
	}
	return ""
}

// findAWS returns the reason why the SDK cannot find keys, or "" if it may find some.
func (l *loader) findAWS(profile string) string {
	if profile != "" {
		if l.awsProfile(profile) == nil {
			return "AWS profile " + profile + " does not exist in the shared files"
		}
		return ""
	}
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
	} {
		if l.variable(name) != "" {
			return ""
		}
	}
	if l.awsProfile(l.profileName("")) != nil || l.machineIs("Amazon EC2") {
		return ""
	}
	return "no AWS credentials found in the environment or the shared files, and this is not an EC2 instance"
}

func (l *loader) profileName(written string) string {
	for _, name := range []string{written, l.variable("AWS_PROFILE"), l.variable("AWS_DEFAULT_PROFILE")} {
		if name != "" {
			return name
		}
	}
	return "default"
}

// awsProfile returns the keys of a profile that have their value on one line. It is nil if neither of the shared files
// has the profile.
func (l *loader) awsProfile(profile string) map[string]string {
	var found map[string]string
	for _, f := range []struct{ variable, file, prefix string }{
		{"AWS_SHARED_CREDENTIALS_FILE", "credentials", ""},
		{"AWS_CONFIG_FILE", "config", "profile "},
	} {
		name := l.variable(f.variable)
		if name == "" {
			name = l.home(".aws", f.file)
		}
		data, err := l.o.ReadFile(name)
		if err != nil {
			continue
		}
		inside := false
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if section, ok := strings.CutPrefix(line, "["); ok {
				section, _, _ = strings.Cut(section, "]")
				section = strings.Join(strings.Fields(section), " ")
				inside = section == f.prefix+profile || profile == "default" && section == "default"
				if inside && found == nil {
					found = map[string]string{}
				}
				continue
			}
			if member, value, ok := strings.Cut(line, "="); ok && inside {
				found[strings.TrimSpace(member)] = strings.TrimSpace(value)
			}
		}
	}
	return found
}

// applicationDefault is the value of google for Application Default Credentials.
const applicationDefault = "adc"

// google reads the source of a Google token. off is the reason if there is none.
func (l *loader) google(a *table, p *Provider) (off string) {
	c := &Google{}
	p.Auth.Google = c
	if n := a.lookUp("google"); n.kind == kindString {
		if n.text != applicationDefault {
			a.fail(n, "google", "%s is not %q%s; name a file with { credentials_file = %q }", show(n), applicationDefault, suggest(n.text, []string{applicationDefault}), "FILE")
		}
		return l.findGoogle(c)
	}
	t := a.table("google")
	file, n := t.text("credentials_file")
	scopes, _ := t.strings("scopes")
	for _, s := range scopes {
		if !strings.HasPrefix(s.text, "https://") || checkPrintable(s.text) != nil {
			t.fail(s, "scopes", "%s is not a scope: want one that starts with https://", show(s))
		}
		c.Scopes = append(c.Scopes, s.text)
	}
	t.finish()
	switch {
	case !t.exists() || n == nil && t.has("credentials_file"):
	case n == nil:
		return l.findGoogle(c)
	case file == "":
		return n.whyEmpty("auth.google.credentials_file")
	default:
		c.File = l.relative(n, file)
		return l.checkGoogleFile(c.File)
	}
	return ""
}

// findGoogle looks for Application Default Credentials in the same places as Google's libraries. off is the reason if
// there are none.
func (l *loader) findGoogle(c *Google) (off string) {
	if c.File = l.variable("GOOGLE_APPLICATION_CREDENTIALS"); c.File != "" {
		return l.checkGoogleFile(c.File)
	}
	known := l.home(".config", "gcloud", "application_default_credentials.json")
	if folder := l.variable("APPDATA"); folder != "" {
		known = filepath.Join(folder, "gcloud", "application_default_credentials.json")
	}
	if folder := l.variable("CLOUDSDK_CONFIG"); folder != "" {
		known = filepath.Join(folder, "application_default_credentials.json")
	}
	if _, err := l.o.ReadFile(known); err == nil {
		c.File = known
		return l.checkGoogleFile(known)
	}
	c.Metadata = l.variable("GCE_METADATA_HOST")
	if c.Metadata != "" || l.variable("K_SERVICE") != "" || l.variable("CLOUD_RUN_JOB") != "" || l.machineIs("Google") {
		return ""
	}
	return "no Google credential found: GOOGLE_APPLICATION_CREDENTIALS is not set, gcloud has none, and this is not a Google machine"
}

// checkGoogleFile returns the reason why a file is not a credential, without quoting the file, or "".
func (l *loader) checkGoogleFile(name string) (off string) {
	data, err := l.o.ReadFile(name)
	if err != nil {
		return "cannot read the Google credential: " + err.Error()
	}
	var file struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &file) != nil || file.Type == "" {
		return name + " is not a Google credential"
	}
	return ""
}

func (l *loader) variable(name string) string {
	v, _ := l.o.Env(name)
	return v
}

// home joins a path to the user's home directory. It returns "" if the directory is unknown.
func (l *loader) home(parts ...string) string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if dir := l.variable(name); dir != "" {
			return filepath.Join(append([]string{dir}, parts...)...)
		}
	}
	return ""
}

// machineIs reports whether the firmware names maker as the vendor of this machine. Unlike a request to a cloud's
// metadata service, it never blocks.
func (l *loader) machineIs(maker string) bool {
	for _, name := range []string{"sys_vendor", "product_name"} {
		if data, err := l.o.ReadFile("/sys/class/dmi/id/" + name); err == nil && bytes.HasPrefix(data, []byte(maker)) {
			return true
		}
	}
	return false
}

// cloudName reports whether s can be the name of an AWS region or service.
func cloudName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

var errNoFile = errors.New("not a regular file, or too large")

// readCredentialFile is the default of Options.ReadFile.
func readCredentialFile(name string) ([]byte, error) {
	if s, err := os.Stat(name); err != nil {
		return nil, err
	} else if !s.Mode().IsRegular() || s.Size() > maxCredentialFile {
		return nil, &os.PathError{Op: "read", Path: name, Err: errNoFile}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxCredentialFile))
}
