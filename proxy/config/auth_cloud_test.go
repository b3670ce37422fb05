package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// parseFiles is like parse, on a machine with these files only.
func parseFiles(text string, files map[string]string, vars ...string) (*config.Config, error) {
	return config.Parse("/etc/sluice/gateway.toml", []byte(text), config.Options{
		Env: env(vars...), Bundled: bundled, Now: today,
		ReadFile: func(name string) ([]byte, error) {
			if data, ok := files[name]; ok {
				return []byte(data), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		},
	})
}

func withAuth(auth string) string {
	return "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = " + auth + "\n"
}

const (
	serviceAccount = `{"type":"service_account","private_key":"canary"}`
	sharedKeys     = "[default]\naws_access_key_id = AKIA\naws_secret_access_key = canary\n\n[work]\naws_access_key_id = AKIB\n"
	sharedConfig   = "[default]\nregion = eu-west-3\n[profile  work ]\nregion=ap-south-1\n[sso-session other]\nregion = us-west-2\n"
)

func TestCloudCredentials(t *testing.T) {
	aws := func(c config.AWS) config.Auth {
		if c.Service == "" {
			c.Service = "bedrock"
		}
		return config.Auth{AWS: &c}
	}
	google := func(c config.Google) config.Auth { return config.Auth{Google: &c} }
	shared := map[string]string{"/home/me/.aws/credentials": sharedKeys, "/home/me/.aws/config": sharedConfig}
	tests := []struct {
		name, auth string
		files      map[string]string
		vars       []string
		want       config.Auth
		off        string
	}{
		{"aws/keys", `{ aws = { region = "eu-central-1", access_key_id = "${ID:-}", secret_access_key = "${KEY:-}", session_token = "${TOKEN:-}" } }`, nil,
			[]string{"ID=AKIA", "KEY=abc/+=", "TOKEN=tok"}, aws(config.AWS{Region: "eu-central-1", AccessKeyID: "AKIA", SecretAccessKey: "abc/+=", SessionToken: "tok"}), ""},
		{"aws/keys without a session", `{ aws = { region = "eu-central-1", access_key_id = "AKIA", secret_access_key = "abc", session_token = "${TOKEN:-}" } }`, nil,
			nil, aws(config.AWS{Region: "eu-central-1", AccessKeyID: "AKIA", SecretAccessKey: "abc"}), ""},
		{"aws/no key", `{ aws = { region = "eu-central-1", access_key_id = "AKIA", secret_access_key = "${KEY:-}" } }`, nil,
			nil, aws(config.AWS{Region: "eu-central-1", AccessKeyID: "AKIA"}), "KEY is not set"},
		{"aws/no key id", `{ aws = { region = "eu-central-1", access_key_id = "", secret_access_key = "${KEY:-}" } }`, nil,
			nil, aws(config.AWS{Region: "eu-central-1"}), "auth.aws.access_key_id is empty"},
		{"aws/another service", `{ aws = { region = "eu-central-1", service = "bedrock-mantle", access_key_id = "AKIA", secret_access_key = "abc" } }`, nil,
			nil, aws(config.AWS{Region: "eu-central-1", Service: "bedrock-mantle", AccessKeyID: "AKIA", SecretAccessKey: "abc"}), ""},
		{"aws/region of the environment", `{ aws = { region = "${R:-}", access_key_id = "AKIA", secret_access_key = "abc" } }`, nil,
			[]string{"AWS_REGION=us-east-2", "AWS_DEFAULT_REGION=us-east-1"}, aws(config.AWS{Region: "us-east-2", AccessKeyID: "AKIA", SecretAccessKey: "abc"}), ""},
		{"aws/default region of the environment", `{ aws = { access_key_id = "AKIA", secret_access_key = "abc" } }`, nil,
			[]string{"AWS_DEFAULT_REGION=us-east-1"}, aws(config.AWS{Region: "us-east-1", AccessKeyID: "AKIA", SecretAccessKey: "abc"}), ""},
		{"aws/no region", `{ aws = { access_key_id = "AKIA", secret_access_key = "abc" } }`, nil,
			nil, aws(config.AWS{AccessKeyID: "AKIA", SecretAccessKey: "abc"}), "no AWS region: neither auth.aws.region nor AWS_REGION is set"},
		{"aws/profile", `{ aws = { profile = "work" } }`, shared, []string{"HOME=/home/me"}, aws(config.AWS{Region: "ap-south-1", Profile: "work"}), ""},
		{"aws/profile of the config file alone", `{ aws = { profile = "work" } }`, map[string]string{"/c": sharedConfig}, []string{"AWS_CONFIG_FILE=/c"}, aws(config.AWS{Region: "ap-south-1", Profile: "work"}), ""},
		{"aws/missing profile", `{ aws = { region = "eu-central-1", profile = "other" } }`, shared, []string{"HOME=/home/me"},
			aws(config.AWS{Region: "eu-central-1", Profile: "other"}), "AWS profile other does not exist in the shared files"},
		{"aws/empty profile", `{ aws = { region = "eu-central-1", profile = "${P:-}" } }`, shared, []string{"HOME=/home/me"},
			aws(config.AWS{Region: "eu-central-1"}), "P is not set"},
		{"aws/default chain, environment", `{ aws = { region = "eu-central-1" } }`, nil, []string{"AWS_ACCESS_KEY_ID=AKIA"}, aws(config.AWS{Region: "eu-central-1"}), ""},
		{"aws/default chain, web identity", `{ aws = { region = "eu-central-1" } }`, nil, []string{"AWS_WEB_IDENTITY_TOKEN_FILE=/t"}, aws(config.AWS{Region: "eu-central-1"}), ""},
		{"aws/default chain, container", `{ aws = { region = "eu-central-1" } }`, nil, []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/"}, aws(config.AWS{Region: "eu-central-1"}), ""},
		{"aws/default chain, shared files", `{ aws = { } }`, shared, []string{"HOME=/home/me"}, aws(config.AWS{Region: "eu-west-3"}), ""},
		{"aws/default chain, profile of the environment", `{ aws = { } }`, shared, []string{"HOME=/home/me", "AWS_PROFILE=work"}, aws(config.AWS{Region: "ap-south-1"}), ""},
		{"aws/default chain, instance", `{ aws = { region = "eu-central-1" } }`, map[string]string{"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, nil, aws(config.AWS{Region: "eu-central-1"}), ""},
		{"aws/default chain, nothing", `{ aws = { region = "eu-central-1" } }`, nil, nil, aws(config.AWS{Region: "eu-central-1"}),
			"no AWS credentials found in the environment or the shared files, and this is not an EC2 instance"},

		{"google/file", `{ google = { credentials_file = "sa.json" } }`, map[string]string{"/etc/sluice/sa.json": serviceAccount}, nil, google(config.Google{File: "/etc/sluice/sa.json"}), ""},
		{"google/file and scopes", `{ google = { credentials_file = "/sa.json", scopes = ["https://a.example/b"] } }`, map[string]string{"/sa.json": serviceAccount}, nil,
			google(config.Google{File: "/sa.json", Scopes: []string{"https://a.example/b"}}), ""},
		{"google/no file", `{ google = { credentials_file = "${FILE:-}" } }`, nil, nil, google(config.Google{}), "FILE is not set"},
		{"google/missing file", `{ google = { credentials_file = "/sa.json" } }`, nil, nil, google(config.Google{File: "/sa.json"}),
			"cannot read the Google credential: open /sa.json: file does not exist"},
		{"google/invalid file", `{ google = { credentials_file = "/sa.json" } }`, map[string]string{"/sa.json": "canary"}, nil, google(config.Google{File: "/sa.json"}),
			"/sa.json is not a Google credential"},
		{"google/adc, environment", `{ google = "adc" }`, map[string]string{"/env.json": serviceAccount}, []string{"GOOGLE_APPLICATION_CREDENTIALS=/env.json"}, google(config.Google{File: "/env.json"}), ""},
		{"google/adc, environment names a missing file", `{ google = "adc" }`, nil, []string{"GOOGLE_APPLICATION_CREDENTIALS=/env.json"}, google(config.Google{File: "/env.json"}),
			"cannot read the Google credential: open /env.json: file does not exist"},
		{"google/adc, gcloud", `{ google = "adc" }`, map[string]string{"/home/me/.config/gcloud/application_default_credentials.json": serviceAccount}, []string{"HOME=/home/me"},
			google(config.Google{File: "/home/me/.config/gcloud/application_default_credentials.json"}), ""},
		{"google/adc with scopes, gcloud", `{ google = { scopes = ["https://a.example/b"] } }`, map[string]string{"/g/application_default_credentials.json": serviceAccount}, []string{"CLOUDSDK_CONFIG=/g"},
			google(config.Google{File: "/g/application_default_credentials.json", Scopes: []string{"https://a.example/b"}}), ""},
		{"google/adc, Cloud Run", `{ google = "adc" }`, nil, []string{"K_SERVICE=sluice"}, google(config.Google{}), ""},
		{"google/adc, metadata server elsewhere", `{ google = "adc" }`, nil, []string{"GCE_METADATA_HOST=127.0.0.1:1"}, google(config.Google{Metadata: "127.0.0.1:1"}), ""},
		{"google/adc, machine", `{ google = "adc" }`, map[string]string{"/sys/class/dmi/id/product_name": "Google Compute Engine\n"}, nil, google(config.Google{}), ""},
		{"google/adc, nothing", `{ google = "adc" }`, nil, nil, google(config.Google{}),
			"no Google credential found: GOOGLE_APPLICATION_CREDENTIALS is not set, gcloud has none, and this is not a Google machine"},
		{"azure", `{ header = "api-key", secret = "k" }`, nil, nil, config.Auth{Header: "api-key", Secrets: []config.FileSecret{{Secret: "k"}}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseFiles(withAuth(tt.auth), tt.files, tt.vars...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Providers[0].Auth); diff != "" {
				t.Errorf("credential (-want +got):\n%s", diff)
			}
			if c.Providers[0].Off != tt.off {
				t.Errorf("off: %q, want %q", c.Providers[0].Off, tt.off)
			}
		})
	}
}

func TestInvalidCloudCredentials(t *testing.T) {
	tests := []struct {
		name, auth string
		want       []string
	}{
		{"misspelt name", `{ asw = { region = "eu-central-1" } }`, []string{
			"4:8: providers.p.auth.secret: is missing; omit auth if no credential is needed",
			`4:10: providers.p.auth.asw: unknown key, did you mean "aws"?`,
		}},
		{"misspelt members", `{ aws = { regoin = "eu-central-1", acces_key_id = "AKIA", secret_access_key = "x" } }`, []string{
			"4:16: providers.p.auth.aws.access_key_id: is missing",
			`4:18: providers.p.auth.aws.regoin: unknown key, did you mean "region"?`,
			`4:43: providers.p.auth.aws.acces_key_id: unknown key, did you mean "access_key_id"?`,
		}},
		{"misspelt name of a file", `{ google = { credential_file = "x" } }`, []string{
			`4:21: providers.p.auth.google.credential_file: unknown key, did you mean "credentials_file"?`,
		}},
		{"both clouds", `{ aws = { region = "eu-central-1" }, google = "adc" }`, []string{"4:54: providers.p.auth.google: set aws or google, not both"}},
		{"with a secret", `{ google = "adc", secret = "s", header = "x-key" }`, []string{
			"4:35: providers.p.auth.secret: cannot be combined with google",
			"4:49: providers.p.auth.header: cannot be combined with google",
		}},
		{"keys and a profile", `{ aws = { profile = "work", access_key_id = "AKIA" } }`, []string{"4:28: providers.p.auth.aws.profile: set keys or a profile, not both"}},
		{"wrong types", `{ aws = "adc" }`, []string{"4:16: providers.p.auth.aws: must be a table, not a string"}},
		{"another wrong type", `{ google = 1 }`, []string{"4:19: providers.p.auth.google: must be a table, not an integer"}},
		{"no region", `{ aws = { region = "Frankfurt!", service = "", access_key_id = "AKIA", secret_access_key = "a b" } }`, []string{
			`4:27: providers.p.auth.aws.region: "Frankfurt!" is not a valid region`,
			`4:51: providers.p.auth.aws.service: "" is not a valid service name`,
			"4:99: providers.p.auth.aws.secret_access_key: has a space, a line break or another character that is not allowed in keys",
		}},
		{"no credential", `{ google = "acd" }`, []string{`4:19: providers.p.auth.google: "acd" is not "adc", did you mean "adc"?; name a file with { credentials_file = "FILE" }`}},
		{"no scope", `{ google = { scopes = ["cloud-platform"] } }`, []string{`4:31: providers.p.auth.google.scopes: "cloud-platform" is not a scope: want one that starts with https://`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseFiles(withAuth(tt.auth), nil)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(strings.ReplaceAll(err.Error(), "/etc/sluice/gateway.toml:", ""), "\n")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCloudCredentialsStaySecret checks that cloud credentials are not printed, do not reach a plugin and are not
// quoted by errors.
func TestCloudCredentialsStaySecret(t *testing.T) {
	const auth = `{ aws = { region = "eu-central-1", access_key_id = "AKIA-canary-1", secret_access_key = "canary-22222", session_token = "canary-33333" } }`
	c, err := parseFiles(withAuth(auth), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, v := range []any{*c.Providers[0].Auth.AWS, c.Providers[0].Auth.AWS, c.Providers[0].Auth, c} {
		fmt.Fprintf(&out, "%v %+v %#v %s %x %d", v, v, v, v, v, v)
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(j)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	if i := strings.Index(out.String(), "canary"); i >= 0 {
		t.Errorf("a credential is printed: …%s…", out.String()[max(0, i-60):i+10])
	}
	for _, secret := range []string{"AKIA-canary-1", "canary-22222", "canary-33333"} {
		_, err := parseFiles(withAuth(auth)+"options = { a = \"x "+secret+"\" }\n", nil)
		if err == nil || !strings.Contains(err.Error(), "providers.p.options.a: contains a configured credential") || strings.Contains(err.Error(), secret) {
			t.Errorf("credential in the options: %v", err)
		}
	}
	for _, member := range []string{`aws = { region = "${CANARY}" }`, `aws = { service = "${CANARY}" }`, `aws = { secret_access_key = "${CANARY}" }`, `google = "${CANARY}"`, `google = { scopes = ["${CANARY}"] }`} {
		if _, err := parseFiles(withAuth("{ "+member+" }"), nil, "CANARY=canary !"); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", member, err)
		}
	}
}

func TestReadsCredentialFiles(t *testing.T) {
	dir := t.TempDir()
	good, folder, large := filepath.Join(dir, "good.json"), filepath.Join(dir, "folder"), filepath.Join(dir, "large.json")
	if err := os.WriteFile(good, []byte(serviceAccount), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, bytes.Repeat([]byte(" "), 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, off := range map[string]string{good: "", folder: "not a regular file, or too large", large: "not a regular file, or too large", filepath.Join(dir, "none"): "no such file"} {
		c := mustParse(t, withAuth(fmt.Sprintf("{ google = { credentials_file = %q } }", file)))
		if got := c.Providers[0].Off; !strings.Contains(got, off) || off == "" && got != "" {
			t.Errorf("%s is off: %q, want %q", file, got, off)
		}
	}
}
