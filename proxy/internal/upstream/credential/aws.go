package credential

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// AWS signs requests with Signature Version 4. The keys are configured here, or come from a profile in the shared
// files, or from the SDK's default chain: the environment, web identity, the default profile (including single sign-on
// and assumed roles), the role of the container or the instance.
type AWS struct {
	Region  string // such as "eu-central-1"
	Service string // service name in the signature; "" means "bedrock"
	Profile string // may be empty

	AccessKeyID, SecretAccessKey, SessionToken string
}

// String describes the signature and the source of the keys, without secrets.
func (a AWS) String() string {
	return "AWS signature for " + cmp.Or(a.Service, defaultService) + " in " + a.Region + " with " + a.source()
}

// Format writes String for every verb, because fmt prints the fields for a verb that does not apply to strings.
func (a AWS) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// MarshalText returns String.
func (a AWS) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// LogValue returns String.
func (a AWS) LogValue() slog.Value { return slog.StringValue(a.String()) }

func (a AWS) source() string {
	switch {
	case a.AccessKeyID != "":
		return "the configured keys"
	case a.Profile != "":
		return "profile " + a.Profile
	}
	return "the default credentials"
}

const (
	defaultService = "bedrock"

	// refreshKeysEvery is the refresh interval of keys without an expiry time, because other programs may update the
	// shared files.
	refreshKeysEvery = 5 * time.Minute
)

// awsSigner signs the requests to one provider.
type awsSigner struct {
	AWS
	keys     *refresher[aws.Credentials]
	v4       *v4.Signer
	now      func() time.Time
	redactor *Redactor
}

func newAWS(a AWS, now func() time.Time, redactor *Redactor) (*awsSigner, error) {
	a.Service = cmp.Or(a.Service, defaultService)
	switch {
	case a.Region == "":
		return nil, errors.New("the AWS credential has no region")
	case strings.Trim(a.Region+a.Service, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return nil, errors.New("the AWS credential has an invalid region or service")
	case (a.AccessKeyID == "") != (a.SecretAccessKey == ""):
		return nil, errors.New("the AWS credential needs both access key ID and secret access key")
	case a.AccessKeyID != "" && a.Profile != "":
		return nil, errors.New("the AWS credential has both keys and a profile")
	case !httpfield.ValidValue(a.AccessKeyID) || !httpfield.ValidValue(a.SessionToken):
		return nil, errors.New("the AWS credential cannot be sent in a header")
	}
	s := &awsSigner{AWS: a, v4: v4.NewSigner(), now: now, redactor: redactor}
	s.keys = newRefresher(s.now, s.fetch)
	s.keys.refreshEvery = refreshKeysEvery
	s.keys.refreshed = s.learn
	if a.AccessKeyID != "" {
		keys := aws.Credentials{AccessKeyID: a.AccessKeyID, SecretAccessKey: a.SecretAccessKey, SessionToken: a.SessionToken}
		s.keys.refreshEvery = 0
		s.keys.store(keys, time.Time{})
		s.learn(keys)
	}
	return s, nil
}

// learn makes the redactor redact the keys.
func (s *awsSigner) learn(k aws.Credentials) {
	s.redactor.learn(s, k.AccessKeyID, k.SecretAccessKey, k.SessionToken)
}

// fetch obtains the keys through the SDK. It loads the SDK's configuration each time, so that changed files take
// effect. The SDK reads the environment itself, because only it knows which of its many variables matter.
func (s *awsSigner) fetch(ctx context.Context) (aws.Credentials, time.Time, error) {
	f := &fetcher{ctx: ctx}
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(s.Region),
		awsconfig.WithHTTPClient(f.httpClient()),
		awsconfig.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		// These two have their own client and timeouts by default.
		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) {
			o.HTTPClient, o.Retryer = f.httpClient(), aws.NopRetryer{}
		}),
		awsconfig.WithProcessCredentialOptions(func(o *processcreds.Options) { o.Timeout = fetchTimeout }),
		awsconfig.WithLogger(logging.Nop{}),
	}
	if s.Profile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(s.Profile))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Credentials{}, time.Time{}, s.fetchError(f, err)
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, time.Time{}, s.fetchError(f, err)
	}
	if !keys.CanExpire {
		return keys, time.Time{}, nil
	}
	return keys, keys.Expires, nil
}

// fetchError turns an error of the SDK, whose text may quote responses and the output of other programs, into an Error.
func (s *awsSigner) fetchError(f *fetcher, err error) error {
	e := &Error{Source: "AWS, " + s.source()}
	var (
		api     smithy.APIError
		op      *smithy.OperationError
		status  *smithyhttp.ResponseError
		profile awsconfig.SharedConfigProfileNotExistError
		program *processcreds.ProviderError
	)
	switch {
	case errors.As(err, &profile):
		e.Reason = "profile " + profile.Profile + " does not exist in the shared files"
	case errors.As(err, &status):
		word := ""
		if errors.As(err, &api) {
			word = api.ErrorCode()
		}
		e.Reason = rejection(status.HTTPStatusCode(), word)
	case errors.As(err, &api):
		e.Reason = rejection(0, api.ErrorCode())
	case errors.As(err, &program):
		e.Reason = "the credential process failed, or printed no keys"
	default:
		e.Reason = f.reason(err)
	}
	if errors.As(err, &op) && op.ServiceID == imds.ServiceID {
		e.Reason = "no credentials found, and the instance has no role: " + e.Reason
	} else if op != nil {
		e.Reason = errorCode(op.ServiceID) + " " + errorCode(op.OperationName) + ": " + e.Reason
	}
	return e
}

// Sign implements Signer. It signs the host, path, query, content type, length, body, and the plugin's headers. Headers
// such as Accept are not signed, so that a proxy in between may change them.
//
// The path is signed as it is sent. For every service but S3, SigV4 escapes it once more before hashing, and so does
// AWS with the path that it receives: "%3A" on the wire is "%253A" in the hash on both sides.
func (s *awsSigner) Sign(ctx context.Context, deadline time.Time, out Request) ([]Header, error) {
	keys, err := s.keys.get(ctx, deadline)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(out.Base+out.Path, "?")
	r := &http.Request{
		Method: out.Method,
		// Opaque keeps the path unchanged. URL.Path would be escaped according to other rules.
		URL:           &url.URL{Scheme: out.Scheme, Host: out.Host, Opaque: "//" + out.Host + path, RawQuery: query},
		Host:          out.Host,
		Header:        make(http.Header, len(out.Headers)+4),
		ContentLength: int64(len(out.Body)),
	}
	if out.ContentType != "" {
		r.Header.Set("Content-Type", out.ContentType)
	}
	for _, h := range out.Headers {
		r.Header.Add(h.Name, h.Value)
	}
	hash := sha256.Sum256(out.Body)
	if err := s.v4.SignHTTP(ctx, keys, r, hex.EncodeToString(hash[:]), s.Service, s.Region, s.now()); err != nil {
		return nil, &Error{Source: "AWS, " + s.source(), Reason: "signing failed"}
	}
	headers := make([]Header, 0, 3)
	for _, name := range []string{"X-Amz-Date", "X-Amz-Security-Token", "Authorization"} {
		if v := r.Header.Get(name); v != "" {
			headers = append(headers, Header{name, v})
		}
	}
	return headers, nil
}

// Owns implements Signer.
func (s *awsSigner) Owns(name string) bool { return strings.HasPrefix(name, "x-amz-") }

// Close implements Signer.
func (s *awsSigner) Close() {
	s.keys.close()
	s.redactor.forget(s)
}
