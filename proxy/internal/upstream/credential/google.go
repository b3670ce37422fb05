package credential

import (
	"bytes"
	"cmp"
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

// Google sends an OAuth 2.0 access token obtained with a credentials file or from the machine's metadata server.
type Google struct {
	// File is a Google credentials file of a service account, a user (gcloud auth application-default login), a
	// federated workload, or an account that one of them impersonates. It is read for each token. "" means the metadata
	// server.
	File string
	// Metadata is the host of the metadata server; "" means 169.254.169.254.
	Metadata string
	Scopes   []string // empty means cloud-platform
}

// String describes where the token comes from.
func (g Google) String() string { return "Google token from " + g.source() }

// LogValue returns String.
func (g Google) LogValue() slog.Value { return slog.StringValue(g.String()) }

func (g Google) source() string {
	if g.File == "" {
		return "the metadata server"
	}
	return g.File
}

const (
	cloudPlatform     = "https://www.googleapis.com/auth/cloud-platform"
	googleTokenURL    = "https://oauth2.googleapis.com/token"
	googleMetadata    = "169.254.169.254"
	quotaHeader       = "X-Goog-User-Project"
	maxGoogleFile     = 1 << 20
	maxGoogleResponse = 1 << 20
)

// googleSigner adds a token to the requests to one provider.
type googleSigner struct {
	Google
	token    *refresher[googleToken]
	now      func() time.Time
	redactor *Redactor
}

// googleToken is an access token.
type googleToken struct {
	headers []Header // headers that send the token
	secrets []string // the token, and the secrets with which it was obtained
}

func newGoogle(g Google, now func() time.Time, redactor *Redactor) *googleSigner {
	g.Metadata = cmp.Or(g.Metadata, googleMetadata)
	if len(g.Scopes) == 0 {
		g.Scopes = []string{cloudPlatform}
	}
	s := &googleSigner{Google: g, now: now, redactor: redactor}
	s.token = newRefresher(s.now, s.fetch)
	s.token.refreshed = func(t googleToken) { s.redactor.learn(s, t.secrets...) }
	return s
}

// Sign implements Signer. It does not allocate.
func (s *googleSigner) Sign(ctx context.Context, deadline time.Time, _ Request) ([]Header, error) {
	t, err := s.token.get(ctx, deadline)
	return t.headers, err
}

// Owns implements Signer.
func (s *googleSigner) Owns(name string) bool { return httpfield.EqualFold(quotaHeader, name) }

// Close implements Signer.
func (s *googleSigner) Close() {
	s.token.close()
	s.redactor.forget(s)
}

// googleFile is a credentials file.
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

// fetch obtains a token. It uses packages below oauth2/google, because oauth2/google itself reads the environment, and
// queries the metadata server with a client that accepts no deadline.
func (s *googleSigner) fetch(ctx context.Context) (googleToken, time.Time, error) {
	f := &fetcher{ctx: ctx}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, f.httpClient())
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
		return googleToken{}, time.Time{}, s.fetchError(f, err)
	case token.AccessToken == "" || !httpfield.ValidValue(token.AccessToken):
		return googleToken{}, time.Time{}, &Error{Source: s.name(), Reason: "the response has no token"}
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

// name describes the source of the token in errors.
func (s *googleSigner) name() string { return "Google, " + s.source() }

// fileError describes what is wrong with a credentials file, without quoting it.
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
		return fileError("the file is not a JSON credential")
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
			return nil, fileError("private_key is not a PEM key")
		}
		return (&jwt.Config{
			Email: f.ClientEmail, PrivateKey: []byte(f.PrivateKey), PrivateKeyID: f.PrivateKeyID, Scopes: s.Scopes,
			TokenURL: cmp.Or(f.TokenURI, googleTokenURL),
		}).TokenSource(ctx).Token()
	case "authorized_user":
		return (&oauth2.Config{
			ClientID: f.ClientID, ClientSecret: f.ClientSecret,
			Endpoint: oauth2.Endpoint{TokenURL: cmp.Or(f.TokenURI, googleTokenURL), AuthStyle: oauth2.AuthStyleInParams},
		}).TokenSource(ctx, &oauth2.Token{RefreshToken: f.RefreshToken}).Token()
	case "external_account":
		source, err := externalaccount.NewTokenSource(ctx, externalaccount.Config{
			Audience: f.Audience, SubjectTokenType: f.SubjectTokenType, TokenURL: f.TokenURL, TokenInfoURL: f.TokenInfoURL,
			ServiceAccountImpersonationURL: f.ImpersonationURL, ServiceAccountImpersonationLifetimeSeconds: f.Impersonation.Lifetime,
			ClientSecret: f.ClientSecret, ClientID: f.ClientID, CredentialSource: f.CredentialSource, QuotaProjectID: f.QuotaProject,
			Scopes: s.Scopes, WorkforcePoolUserProject: f.WorkforceProject,
		})
		if err != nil {
			return nil, fileError("the external account is incomplete")
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

// impersonate exchanges a token for a token of the account that the file names.
func (s *googleSigner) impersonate(ctx context.Context, f *googleFile, token *oauth2.Token) (*oauth2.Token, error) {
	body, err := json.Marshal(map[string]any{"scope": s.Scopes, "delegates": f.Delegates, "lifetime": "3600s"})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.ImpersonationURL, bytes.NewReader(body))
	if err != nil {
		return nil, fileError("service_account_impersonation_url is not a valid URL")
	}
	r.Header.Set("Content-Type", "application/json")
	token.SetAuthHeader(r)
	var response struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if err := fetchJSON(ctx, r, &response); err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: response.AccessToken, Expiry: response.ExpireTime}, nil
}

// fromMetadata obtains the token of the machine's account from the metadata server.
func (s *googleSigner) fromMetadata(ctx context.Context) (*oauth2.Token, error) {
	u := url.URL{
		Scheme: "http", Host: s.Metadata, Path: "/computeMetadata/v1/instance/service-accounts/default/token",
		RawQuery: url.Values{"scopes": {strings.Join(s.Scopes, ",")}}.Encode(),
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fileError("the metadata server's address is invalid")
	}
	r.Header.Set("Metadata-Flavor", "Google")
	var response struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := fetchJSON(ctx, r, &response); err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: response.AccessToken, Expiry: time.Now().Add(time.Duration(response.ExpiresIn) * time.Second)}, nil
}

// statusError is an unexpected HTTP status.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// fetchJSON sends a request with the context's client and decodes the JSON response.
func fetchJSON(ctx context.Context, r *http.Request, response any) error {
	resp, err := oauth2.NewClient(ctx, nil).Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxGoogleResponse)).Decode(response)
}

// fetchError turns an error whose text may quote a response into an Error.
func (s *googleSigner) fetchError(f *fetcher, err error) error {
	e := &Error{Source: s.name()}
	var (
		refused *oauth2.RetrieveError
		status  statusError
		file    fileError
	)
	switch {
	case errors.As(err, &refused):
		var body struct {
			Error string `json:"error"`
		}
		// A response that is not JSON has no code.
		_ = json.Unmarshal(refused.Body, &body)
		number := 0
		if refused.Response != nil {
			number = refused.Response.StatusCode
		}
		e.Reason = rejection(number, cmp.Or(refused.ErrorCode, body.Error))
	case errors.As(err, &status):
		e.Reason = rejection(int(status), "")
	case errors.As(err, &file):
		e.Reason = file.Error()
	default:
		e.Reason = f.reason(err)
	}
	return e
}
