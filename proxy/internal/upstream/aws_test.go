package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// The keys and the time of the test suite that AWS publishes for Signature Version 4.
const (
	suiteID     = "AKIDEXAMPLE"
	suiteSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

func suiteTime() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }

// acceptingServer returns a provider that responds to every request with status 200.
func acceptingServer(t *testing.T) *upstreamtest.Server {
	return upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", "{}"))})
}

// newSigningClient returns a client that signs requests and connects to the server whatever host name it is given.
func newSigningClient(t *testing.T, s *upstreamtest.Server, base string, a credential.AWS, change func(*upstream.Config)) *upstream.Client {
	return newClient(t, s, func(c *upstream.Config) {
		c.BaseURL, c.Credential, c.Now = base, credential.Credential{AWS: &a}, suiteTime
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, s.Addr())
		}
		if change != nil {
			change(c)
		}
	})
}

// TestSigV4Suite compares signatures with those of AWS's published test suite.
func TestSigV4Suite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, method, path, want string }{
		{"get-vanilla", "GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"get-vanilla-query-order-key-case", "GET", "/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{"get-unreserved", "GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		{"post-vanilla", "POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := acceptingServer(t)
			c := newSigningClient(t, s, "http://example.amazonaws.com:80", credential.AWS{Region: "us-east-1", Service: "service", AccessKeyID: suiteID, SecretAccessKey: suiteSecret}, nil)
			if status, _, err := roundTrip(t, c, &upstream.Request{Method: tt.method, Path: tt.path, Accept: "application/json"}); err != nil || status != 200 {
				t.Fatal(status, err)
			}
			got := s.Requests()[0]
			want := "AWS4-HMAC-SHA256 Credential=" + suiteID + "/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + tt.want
			if a := got.Header.Get("Authorization"); a != want || got.Header.Get("X-Amz-Date") != "20150830T123600Z" || got.Path != tt.path {
				t.Errorf("request\n%s\nwant %s", got.Head, want)
			}
		})
	}
}

// verifySignature checks the signature of the bytes that arrived, both by calculating it as AWS describes it and by
// signing the same request again with the SDK. It returns the names of the signed headers.
func verifySignature(t *testing.T, r upstreamtest.Request, region, service, secret, token string) (signed []string) {
	t.Helper()
	authorization := r.Header.Get("Authorization")
	rest, ok := strings.CutPrefix(authorization, "AWS4-HMAC-SHA256 Credential=")
	parts := strings.Split(rest, ", ")
	if !ok || len(parts) != 3 || r.Header.Get("X-Amz-Security-Token") != token {
		t.Fatalf("authorization %q with token %q", authorization, r.Header.Get("X-Amz-Security-Token"))
	}
	id, scope, _ := strings.Cut(parts[0], "/")
	signed = strings.Split(strings.TrimPrefix(parts[1], "SignedHeaders="), ";")
	date := r.Header.Get("X-Amz-Date")
	if want := date[:8] + "/" + region + "/" + service + "/aws4_request"; scope != want {
		t.Fatalf("scope %s, want %s", scope, want)
	}

	escape := func(s string, keep string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"+keep, c) >= 0 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		return b.String()
	}
	path, query, _ := strings.Cut(r.Path, "?")
	var params []string
	for param := range strings.SplitSeq(query, "&") {
		if param == "" {
			continue
		}
		name, value, _ := strings.Cut(param, "=")
		n, err1 := url.PathUnescape(name)
		v, err2 := url.PathUnescape(value)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		params = append(params, escape(n, "")+"="+escape(v, ""))
	}
	slices.Sort(params)
	var headers strings.Builder
	hostLine := ""
	for line := range strings.SplitSeq(r.Head, "\r\n") {
		if h, ok := strings.CutPrefix(line, "Host: "); ok {
			hostLine = h
		}
	}
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = hostLine
		}
		headers.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	sum := func(p []byte) string { h := sha256.Sum256(p); return hex.EncodeToString(h[:]) }
	canonical := strings.Join([]string{r.Method, escape(path, "/"), strings.Join(params, "&"), headers.String(), strings.Join(signed, ";"), sum(r.Body)}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range []string{date[:8], region, service, "aws4_request", "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + sum([]byte(canonical))} {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	if got := strings.TrimPrefix(parts[2], "Signature="); got != hex.EncodeToString(key) {
		t.Errorf("got signature %s, want %x for\n%s", got, key, canonical)
	}

	again, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append([]byte(r.Head+"\r\n\r\n"), r.Body...))))
	if err != nil {
		t.Fatal(err)
	}
	for name := range again.Header {
		if !slices.Contains(signed, strings.ToLower(name)) {
			again.Header.Del(name)
		}
	}
	if !slices.Contains(signed, "content-length") {
		again.ContentLength = 0
	}
	again.URL.Host = again.Host
	when, err := time.Parse("20060102T150405Z", date)
	if err != nil {
		t.Fatal(err)
	}
	keys := aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}
	if err := v4.NewSigner().SignHTTP(t.Context(), keys, again, sum(r.Body), service, region, when); err != nil {
		t.Fatal(err)
	}
	if got := again.Header.Get("Authorization"); got != authorization {
		t.Errorf("got authorization\n%s\nwant the SDK's\n%s", authorization, got)
	}
	return signed
}

// TestSignedPathMatchesSentPath sends the paths of all kinds of model IDs and checks that each arrives byte for byte,
// escaped once, with a valid signature.
//
// covers: B1
func TestSignedPathMatchesSentPath(t *testing.T) {
	t.Parallel()
	s := acceptingServer(t)
	const host = "http://bedrock-runtime.eu-central-1.amazonaws.com"
	for i, path := range []string{
		"/model/amazon.titan-text-express-v1/converse",
		"/model/anthropic.claude-3-5-sonnet-20240620-v1:0/converse",
		"/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse-stream",
		"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2/converse",
		"/model/arn:aws:bedrock:us-east-1:123456789012:prompt/A:1/converse",
		"/model/a%20b+c%2Bd%25e%E1%88%B4(1)!*'~/converse",
		"/model/m/converse?b=2&a=1&a=0&c=%2F~%20x",
	} {
		for _, base := range []string{host, host + ":80/some%3Aprefix"} {
			c := newSigningClient(t, s, base, credential.AWS{Region: "eu-central-1", AccessKeyID: suiteID, SecretAccessKey: suiteSecret, SessionToken: "tok"}, nil)
			r := post(fmt.Sprintf(`{"n":%d}`, i))
			r.Path = path
			r.Headers = []upstream.Header{{Name: "X-Amzn-Bedrock-GuardrailIdentifier", Value: "a  b "}}
			if status, _, err := roundTrip(t, c, r); err != nil || status != 200 {
				t.Fatal(path, status, err)
			}
			all := s.Requests()
			got := all[len(all)-1]
			if want := strings.TrimPrefix(strings.TrimPrefix(base, host), ":80") + path; got.Path != want {
				t.Errorf("sent %s, want %s", got.Path, want)
			}
			signed := verifySignature(t, got, "eu-central-1", "bedrock", suiteSecret, "tok")
			if strings.Join(signed, ";") != "content-length;content-type;host;x-amz-date;x-amz-security-token;x-amzn-bedrock-guardrailidentifier" {
				t.Errorf("signed: %s", signed)
			}
		}
	}
}

func TestRetryHasSameSignature(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", "{}"), upstreamtest.ReadRequest(), upstreamtest.Close()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", "{}")})
	c := newSigningClient(t, s, "http://a.example", credential.AWS{Region: "eu-central-1", AccessKeyID: suiteID, SecretAccessKey: suiteSecret}, nil)
	for range 2 {
		if status, _, err := roundTrip(t, c, post(strings.Repeat("x", 100_000))); err != nil || status != 200 {
			t.Fatal(status, err)
		}
	}
	all := s.Requests()
	if len(all) != 3 {
		t.Fatalf("%d requests, want 3", len(all))
	}
	for _, r := range all {
		verifySignature(t, r, "eu-central-1", "bedrock", suiteSecret, "")
	}
}

func TestInvalidSigningConfiguration(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]credential.Credential{
		"no region":                 {AWS: &credential.AWS{}},
		"invalid region or service": {AWS: &credential.AWS{Region: "eu central"}},
		"needs both":                {AWS: &credential.AWS{Region: "eu-central-1", SecretAccessKey: "canary"}},
		"keys and a profile":        {AWS: &credential.AWS{Region: "eu-central-1", AccessKeyID: "canary", SecretAccessKey: "canary", Profile: "p"}},
		"be sent in a header":       {AWS: &credential.AWS{Region: "eu-central-1", AccessKeyID: "canary\n", SecretAccessKey: "canary"}},
		"more than one":             {AWS: &credential.AWS{Region: "eu-central-1"}, Google: &credential.Google{}},
		"more than one credenti":    {Google: &credential.Google{}, Header: "x", Secrets: []string{"canary"}},
	} {
		if _, err := upstream.New(upstream.Config{BaseURL: "https://a.example", Credential: c}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRejectsSignatureHeaders(t *testing.T) {
	t.Parallel()
	s := acceptingServer(t)
	c := newSigningClient(t, s, "http://a.example", credential.AWS{Region: "eu-central-1", AccessKeyID: suiteID, SecretAccessKey: suiteSecret}, nil)
	for _, name := range []string{"X-Amz-Date", "x-amz-security-token", "x-AMZ-target", "Authorization"} {
		r := post("{}")
		r.Headers = []upstream.Header{{Name: name, Value: "x"}}
		if _, _, err := roundTrip(t, c, r); errorKind(t, err) != upstream.BadRequest {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}

// clearEnvironment sets up an environment in which the SDK finds no credentials, and returns a directory for files.
func clearEnvironment(t *testing.T) string {
	t.Helper()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return dir
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	foundSecret = "canary-secret-0123456789"
	foundToken  = "canary-session-0123456789"
)

// serveKeys responds like a container's credentials endpoint, and counts the requests.
func serveKeys(t *testing.T, expires func(n int32) time.Time) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := requests.Add(1)
		fmt.Fprintf(w, `{"AccessKeyId":"AKIA%d","SecretAccessKey":%q,"Token":%q,"Expiration":%q}`, n, foundSecret, foundToken, expires(n).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

// TestAWSCredentialSources checks that each source leads to a valid signature, and that its secrets are redacted from
// then on.
func TestAWSCredentialSources(t *testing.T) {
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() != nil || r.Form.Get("Action") != "AssumeRoleWithWebIdentity" || r.Form.Get("WebIdentityToken") != "identity" || r.Form.Get("RoleArn") != "arn:aws:iam::1:role/r" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
			foundSecret, foundToken, suiteTime().Add(time.Hour).Format(time.RFC3339))
	}))
	t.Cleanup(sts.Close)
	imds := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "metadata-token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "metadata-token":
			http.Error(w, "no", http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			fmt.Fprint(w, "role")
		default:
			fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"ASIA","SecretAccessKey":%q,"Token":%q,"Expiration":%q}`, foundSecret, foundToken, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		}
	}))
	t.Cleanup(imds.Close)
	shared := "[default]\naws_access_key_id = AKIA\naws_secret_access_key = " + foundSecret + "\naws_session_token = " + foundToken + "\n"
	tests := []struct {
		name, profile string
		prepare       func(t *testing.T, dir string)
	}{
		{"environment", "", func(t *testing.T, dir string) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIA")
			t.Setenv("AWS_SECRET_ACCESS_KEY", foundSecret)
			t.Setenv("AWS_SESSION_TOKEN", foundToken)
		}},
		{"shared file", "", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "credentials"), shared) }},
		{"profile", "work", func(t *testing.T, dir string) {
			// A configured profile overrides the environment.
			t.Setenv("AWS_ACCESS_KEY_ID", "other")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "other")
			writeFile(t, filepath.Join(dir, "credentials"), strings.Replace(shared, "default", "work", 1))
		}},
		{"process", "work", func(t *testing.T, dir string) {
			out := writeFile(t, filepath.Join(dir, "out"), fmt.Sprintf(`{"Version":1,"AccessKeyId":"AKIA","SecretAccessKey":%q,"SessionToken":%q}`, foundSecret, foundToken))
			writeFile(t, filepath.Join(dir, "config"), "[profile work]\ncredential_process = cat "+out+"\n")
		}},
		{"web identity", "", func(t *testing.T, dir string) {
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", writeFile(t, filepath.Join(dir, "identity"), "identity"))
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
			t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
		}},
		{"container", "", func(t *testing.T, dir string) {
			u, _ := serveKeys(t, func(int32) time.Time { return suiteTime().Add(time.Hour) })
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", u)
		}},
		{"instance", "", func(t *testing.T, dir string) {
			t.Setenv("AWS_EC2_METADATA_DISABLED", "")
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.URL)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.prepare(t, clearEnvironment(t))
			s := acceptingServer(t)
			redactor := credential.NewRedactor()
			c := newSigningClient(t, s, "http://bedrock.example", credential.AWS{Region: "eu-central-1", Profile: tt.profile}, func(c *upstream.Config) { c.Redactor = redactor })
			for range 3 {
				if status, _, err := roundTrip(t, c, post("{}")); err != nil || status != 200 {
					t.Fatal(status, err)
				}
			}
			for _, r := range s.Requests() {
				verifySignature(t, r, "eu-central-1", "bedrock", foundSecret, foundToken)
			}
			said := []byte("wrong " + foundSecret + " with " + foundToken)
			if got := string(redactor.Redact(said)); got != "wrong [redacted] with [redacted]" {
				t.Errorf("redacted: %s", got)
			}
			c.Close()
			if got := redactor.Redact(said); &got[0] != &said[0] {
				t.Errorf("still redacted after Close: %s", got)
			}
		})
	}
}

// TestAWSCredentialsAreRenewedOnce checks that expired credentials are fetched once for many concurrent requests, and
// that no request waits before they expire.
func TestAWSCredentialsAreRenewedOnce(t *testing.T) {
	clearEnvironment(t)
	var ahead atomic.Int64
	now := func() time.Time { return suiteTime().Add(time.Duration(ahead.Load())) }
	u, requests := serveKeys(t, func(n int32) time.Time { return suiteTime().Add(time.Duration(n) * time.Hour) })
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", u)
	s := acceptingServer(t)
	c := newSigningClient(t, s, "http://bedrock.example", credential.AWS{Region: "eu-central-1"}, func(c *upstream.Config) { c.Now = now })
	for round := range int32(3) {
		ahead.Store(int64(time.Duration(round)*time.Hour + time.Second))
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if status, _, err := roundTrip(t, c, post("{}")); err != nil || status != 200 {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
		if got := requests.Load(); got != round+1 {
			t.Fatalf("round %d: credentials were fetched %d times, want %d", round, got, round+1)
		}
	}
	for _, r := range s.Requests() {
		verifySignature(t, r, "eu-central-1", "bedrock", foundSecret, foundToken)
	}
}

func TestAWSCredentialsMissing(t *testing.T) {
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	responses := func(status int, body string) func(t *testing.T, dir string) {
		return func(t *testing.T, _ string) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}))
			t.Cleanup(s.Close)
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", s.URL)
		}
	}
	tests := []struct {
		name, profile string
		prepare       func(t *testing.T, dir string)
		want          string
	}{
		{"unknown profile", "gone", func(*testing.T, string) {}, "AWS, profile gone: profile gone does not exist in the shared files"},
		{"no source", "", func(*testing.T, string) {}, "AWS, the default credentials: no credentials found, and the instance has no role"},
		{"rejected", "", responses(403, `{"code":"AccessDenied","message":"canary"}`), "AWS, the default credentials: rejected"},
		{"invalid response", "", responses(200, `canary`), "AWS, the default credentials: invalid response"},
		{"process with invalid output", "work", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "config"), "[profile work]\ncredential_process = echo canary\n")
		}, "AWS, profile work: the credential process failed, or printed no keys"},
		{"failing process", "work", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "config"), "[profile work]\ncredential_process = sh -c 'exit 3'\n")
		}, "AWS, profile work: the credential process failed, or printed no keys"},
		{"web identity rejected", "", func(t *testing.T, dir string) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code><Message>canary</Message></Error></ErrorResponse>`)
			}))
			t.Cleanup(s.Close)
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", writeFile(t, filepath.Join(dir, "identity"), "canary"))
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/canary")
			t.Setenv("AWS_ENDPOINT_URL_STS", s.URL)
		}, "AWS, the default credentials: STS AssumeRoleWithWebIdentity: status 400 ExpiredTokenException"},
		{"no response", "", func(t *testing.T, dir string) {
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-silent:
				case <-r.Context().Done():
				}
			}))
			t.Cleanup(s.Close)
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", s.URL)
		}, "no credential while connecting: timed out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.prepare(t, clearEnvironment(t))
			s := acceptingServer(t)
			c := newSigningClient(t, s, "http://bedrock.example", credential.AWS{Region: "eu-central-1", Profile: tt.profile}, func(c *upstream.Config) {
				if strings.Contains(tt.want, "timed out") {
					c.Timeouts.Connect, c.Timeouts.TLS = 30*time.Millisecond, 30*time.Millisecond
				}
			})
			start := time.Now()
			_, _, err := roundTrip(t, c, post(`{"prompt":"canary"}`))
			if errorKind(t, err) != upstream.NoCredential || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
			if d := time.Since(start); d > testTimeout {
				t.Errorf("took %v", d)
			}
			if n := len(s.Requests()); n != 0 {
				t.Errorf("%d requests were sent, want none", n)
			}
		})
	}
}
