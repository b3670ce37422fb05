package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/externalaccount"
	"golang.org/x/oauth2/jwt"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Google sends an OAuth 2.0 access token, which is obtained with a file of credentials or from the metadata server of the
// machine.
type Google struct {
	// File is what Google makes for a service account, a user (gcloud auth application-default login), a federated
	// workload, or an account that one of them impersonates. It is read anew for each token. "" is the metadata server.
	File string
	// Metadata is the host of the metadata server; "" is 169.254.169.254.
	Metadata string
	Scopes   []string // none: cloud-platform
}

// String says where the token comes from.
func (g Google) String() string { return "token of Google from " + g.source() }

// LogValue is String.
func (g Google) LogValue() slog.Value { return slog.StringValue(g.String()) }

func (g Google) source() string {
	if g.File == "" {
		return "the metadata server"
	}
	return g.File
}

const (
	cloudPlatform   = "https://www.googleapis.com/auth/cloud-platform"
	googleTokenURL  = "https://oauth2.googleapis.com/token"
	googleMetadata  = "169.254.169.254"
	quotaHeader     = "X-Goog-User-Project"
	maxGoogleFile   = 1 << 20
	maxGoogleAnswer = 1 << 20
)

// googleSigner has the token of one provider.
type googleSigner struct {
	Google
	token    *renewed[googleToken]
	now      func() time.Time
	redactor *Redactor
}

// googleToken is a token as it is sent, made once, and the secrets that it was obtained with.
type googleToken struct {
	headers []Header
	secrets []string
}

func newGoogle(g Google, cfg *Config) *googleSigner {
	g.Metadata = orText(g.Metadata, googleMetadata)
	if len(g.Scopes) == 0 {
		g.Scopes = []string{cloudPlatform}
	}
	s := &googleSigner{Google: g, now: cfg.Now, redactor: cfg.Redactor}
	s.token = newRenewed(s.now, s.fetch)
	s.token.obtained = func(t googleToken) { s.redactor.learn(s, t.secrets...) }
	return s
}

// sign implements signer. It does not allocate.
func (s *googleSigner) sign(ctx context.Context, limit time.Time, _ outgoing) ([]Header, error) {
	t, err := s.token.get(ctx, limit)
	return t.headers, err
}

// owns implements signer.
func (s *googleSigner) owns(name string) bool { return httpfield.EqualFold(quotaHeader, name) }

// close implements signer.
func (s *googleSigner) close() {
	s.token.close()
	s.redactor.forget(s)
}

// googleFile is a file of credentials.
type googleFile struct {
	Type string `json:"type"`

	// service_account
	ClientEmail  string `json:"client_email"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`

	// authorized_user
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`

	// external_account
	Audience         string                            `json:"audience"`
	SubjectTokenType string                            `json:"subject_token_type"`
	TokenURL         string                            `json:"token_url"`
	TokenInfoURL     string                            `json:"token_info_url"`
	CredentialSource *externalaccount.CredentialSource `json:"credential_source"`
	WorkforceProject string                            `json:"workforce_pool_user_project"`
	Impersonation    struct {
		Lifetime int `json:"token_lifetime_seconds"`
	} `json:"service_account_impersonation"`

	// impersonated_service_account, and external_account
	ImpersonationURL string      `json:"service_account_impersonation_url"`
	Source           *googleFile `json:"source_credentials"`
	Delegates        []string    `json:"delegates"`

	QuotaProject string `json:"quota_project_id"`
}

// fetch obtains a token. The packages that do it here are those below oauth2/google: that one's own functions ask the
// metadata server with a client of its own, which cannot be given a deadline, and read the environment.
func (s *googleSigner) fetch(ctx context.Context) (googleToken, time.Time, error) {
	f := &fetcher{ctx: ctx}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, f.client())
	var (
		file  googleFile
		token *oauth2.Token
		err   error
	)
	if s.File == "" {
		token, err = s.fromMetadata(ctx)
	} else if err = readGoogleFile(s.File, &file); err == nil {
		token, err = s.fromFile(ctx, &file)
	}
	switch {
	case err != nil:
		return googleToken{}, time.Time{}, s.failed(f, err)
	case token.AccessToken == "" || !httpfield.ValidValue(token.AccessToken):
		return googleToken{}, time.Time{}, &CredentialError{Source: s.name(), Reason: "there is no token in the answer"}
	}
	t := googleToken{
		headers: []Header{{"Authorization", "Bearer " + token.AccessToken}},
		secrets: []string{token.AccessToken, file.ClientSecret, file.RefreshToken},
	}
	if file.QuotaProject != "" && httpfield.ValidValue(file.QuotaProject) {
		t.headers = append(t.headers, Header{quotaHeader, file.QuotaProject})
	}
	return t, token.Expiry, nil
}

func (s *googleSigner) name() string { return "Google, " + s.source() }

// fileError says what is wrong with a file of credentials, in words that quote nothing of it.
type fileError string

func (e fileError) Error() string { return string(e) }

func readGoogleFile(name string, file *googleFile) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGoogleFile+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxGoogleFile:
		return fileError("the file is too large")
	case json.Unmarshal(data, file) != nil:
		return fileError("the file is no JSON of credentials")
	}
	return nil
}

func (s *googleSigner) fromFile(ctx context.Context, f *googleFile) (*oauth2.Token, error) {
	switch f.Type {
	case "service_account":
		if f.ClientEmail == "" || f.PrivateKey == "" {
			return nil, fileError("client_email or private_key is missing")
		}
		if block, _ := pem.Decode([]byte(f.PrivateKey)); block == nil {
			return nil, fileError("private_key is no key in PEM")
		}
		return (&jwt.Config{
			Email: f.ClientEmail, PrivateKey: []byte(f.PrivateKey), PrivateKeyID: f.PrivateKeyID, Scopes: s.Scopes,
			TokenURL: orText(f.TokenURI, googleTokenURL),
		}).TokenSource(ctx).Token()
	case "authorized_user":
		return (&oauth2.Config{
			ClientID: f.ClientID, ClientSecret: f.ClientSecret,
			Endpoint: oauth2.Endpoint{TokenURL: orText(f.TokenURI, googleTokenURL), AuthStyle: oauth2.AuthStyleInParams},
		}).TokenSource(ctx, &oauth2.Token{RefreshToken: f.RefreshToken}).Token()
	case "external_account":
		source, err := externalaccount.NewTokenSource(ctx, externalaccount.Config{
			Audience: f.Audience, SubjectTokenType: f.SubjectTokenType, TokenURL: f.TokenURL, TokenInfoURL: f.TokenInfoURL,
			ServiceAccountImpersonationURL: f.ImpersonationURL, ServiceAccountImpersonationLifetimeSeconds: f.Impersonation.Lifetime,
			ClientSecret: f.ClientSecret, ClientID: f.ClientID, CredentialSource: f.CredentialSource, QuotaProjectID: f.QuotaProject,
			Scopes: s.Scopes, WorkforcePoolUserProject: f.WorkforceProject,
		})
		if err != nil {
			return nil, fileError("the description of the federated workload is not complete")
		}
		return source.Token()
	case "impersonated_service_account":
		if f.Source == nil || f.Source.Type == f.Type || f.ImpersonationURL == "" {
			return nil, fileError("source_credentials or service_account_impersonation_url is missing")
		}
		token, err := s.fromFile(ctx, f.Source)
		if err != nil {
			return nil, err
		}
		return s.impersonate(ctx, f, token)
	case "":
		return nil, fileError("the file has no type")
	}
	return nil, fileError("credentials of this type are not supported")
}

// impersonate exchanges a token for that of the account that the file names.
func (s *googleSigner) impersonate(ctx context.Context, f *googleFile, token *oauth2.Token) (*oauth2.Token, error) {
	body, err := json.Marshal(map[string]any{"scope": s.Scopes, "delegates": f.Delegates, "lifetime": "3600s"})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.ImpersonationURL, bytes.NewReader(body))
	if err != nil {
		return nil, fileError("service_account_impersonation_url is no URL")
	}
	r.Header.Set("Content-Type", "application/json")
	token.SetAuthHeader(r)
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if err := ask(ctx, r, &answer); err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: answer.AccessToken, Expiry: answer.ExpireTime}, nil
}

// fromMetadata asks the metadata server for the token of the machine's account.
func (s *googleSigner) fromMetadata(ctx context.Context) (*oauth2.Token, error) {
	u := url.URL{
		Scheme: "http", Host: s.Metadata, Path: "/computeMetadata/v1/instance/service-accounts/default/token",
		RawQuery: url.Values{"scopes": {strings.Join(s.Scopes, ",")}}.Encode(),
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fileError("the metadata server's address is none")
	}
	r.Header.Set("Metadata-Flavor", "Google")
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := ask(ctx, r, &answer); err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: answer.AccessToken, Expiry: time.Now().Add(time.Duration(answer.ExpiresIn) * time.Second)}, nil
}

// statusError is the status of an answer that is not the one wanted.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// ask sends a request with the context's client and reads a JSON answer.
func ask(ctx context.Context, r *http.Request, answer any) error {
	resp, err := oauth2.NewClient(ctx, nil).Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxGoogleAnswer)).Decode(answer)
}

// failed makes a CredentialError of an error whose text may quote an answer.
func (s *googleSigner) failed(f *fetcher, err error) error {
	e := &CredentialError{Source: s.name()}
	var (
		refused *oauth2.RetrieveError
		status  statusError
		file    fileError
	)
	switch {
	case errors.As(err, &refused):
		var said struct {
			Error string `json:"error"`
		}
		// An answer that is no JSON has no code.
		_ = json.Unmarshal(refused.Body, &said)
		number := 0
		if refused.Response != nil {
			number = refused.Response.StatusCode
		}
		e.Reason = refusal(number, orText(refused.ErrorCode, said.Error))
	case errors.As(err, &status):
		e.Reason = refusal(int(status), "")
	case errors.As(err, &file):
		e.Reason = file.Error()
	default:
		e.Reason = f.reason(err)
	}
	return e
}
