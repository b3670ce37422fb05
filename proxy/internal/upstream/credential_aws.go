package upstream

import (
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

// AWS signs requests with Signature Version 4. The keys are those that are given here, or those of a profile of the
// shared files, or what the SDK's default chain finds: the environment, web identity, the default profile (single
// sign-on and assumed roles included), the container's and the instance's role.
type AWS struct {
	Region  string // "eu-central-1"
	Service string // the name to sign for; "" is "bedrock"
	Profile string

	AccessKeyID, SecretAccessKey, SessionToken string
}

// String says what is signed for and where the keys come from, and never what they are.
func (a AWS) String() string {
	return "AWS signature for " + orText(a.Service, defaultService) + " in " + a.Region + " with " + a.source()
}

// Format is String for every verb: under one that does not fit a string, fmt would print the parts.
func (a AWS) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// MarshalText is String.
func (a AWS) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// LogValue is String.
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

	// rereadKeys is how old keys that say nothing of their end may be. Other programs put new ones into the shared files.
	rereadKeys = 5 * time.Minute
)

// awsSigner signs for one provider.
type awsSigner struct {
	AWS
	keys     *renewed[aws.Credentials]
	v4       *v4.Signer
	now      func() time.Time
	redactor *Redactor
}

func newAWS(a AWS, cfg *Config) (*awsSigner, error) {
	a.Service = orText(a.Service, defaultService)
	switch {
	case a.Region == "":
		return nil, errors.New("the AWS credential has no region")
	case strings.Trim(a.Region+a.Service, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return nil, errors.New("the AWS credential's region or service is no name of one")
	case (a.AccessKeyID == "") != (a.SecretAccessKey == ""):
		return nil, errors.New("the AWS credential needs the key's id and the key")
	case a.AccessKeyID != "" && a.Profile != "":
		return nil, errors.New("the AWS credential has keys and a profile")
	case !httpfield.ValidValue(a.AccessKeyID) || !httpfield.ValidValue(a.SessionToken):
		return nil, errors.New("the AWS credential cannot be sent in a header")
	}
	s := &awsSigner{AWS: a, v4: v4.NewSigner(), now: cfg.Now, redactor: cfg.Redactor}
	s.keys = newRenewed(s.now, s.fetch)
	s.keys.reread = rereadKeys
	s.keys.obtained = s.learn
	if a.AccessKeyID != "" {
		keys := aws.Credentials{AccessKeyID: a.AccessKeyID, SecretAccessKey: a.SecretAccessKey, SessionToken: a.SessionToken}
		s.keys.reread = 0
		s.keys.hold(keys, time.Time{})
		s.learn(keys)
	}
	return s, nil
}

func (s *awsSigner) learn(k aws.Credentials) {
	s.redactor.learn(s, k.AccessKeyID, k.SecretAccessKey, k.SessionToken)
}

// fetch has the SDK obtain the keys. Its configuration is loaded anew each time, so that changed files count. The SDK
// reads the environment itself: which of its many variables matter is decided there.
func (s *awsSigner) fetch(ctx context.Context) (aws.Credentials, time.Time, error) {
	f := &fetcher{ctx: ctx}
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(s.Region),
		awsconfig.WithHTTPClient(f.client()),
		awsconfig.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		// These two have a client and a patience of their own, unless they are told.
		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) {
			o.HTTPClient, o.Retryer = f.client(), aws.NopRetryer{}
		}),
		awsconfig.WithProcessCredentialOptions(func(o *processcreds.Options) { o.Timeout = fetchTimeout }),
		awsconfig.WithLogger(logging.Nop{}),
	}
	if s.Profile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(s.Profile))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Credentials{}, time.Time{}, s.failed(f, err)
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, time.Time{}, s.failed(f, err)
	}
	if !keys.CanExpire {
		return keys, time.Time{}, nil
	}
	return keys, keys.Expires, nil
}

// failed makes a CredentialError of one of the SDK's, whose texts quote answers and the output of other programs.
func (s *awsSigner) failed(f *fetcher, err error) error {
	e := &CredentialError{Source: "AWS, " + s.source()}
	var (
		api     smithy.APIError
		op      *smithy.OperationError
		status  *smithyhttp.ResponseError
		profile awsconfig.SharedConfigProfileNotExistError
		program *processcreds.ProviderError
	)
	switch {
	case errors.As(err, &profile):
		e.Reason = "there is no profile " + profile.Profile + " in the shared files"
	case errors.As(err, &status):
		word := ""
		if errors.As(err, &api) {
			word = api.ErrorCode()
		}
		e.Reason = refusal(status.HTTPStatusCode(), word)
	case errors.As(err, &api):
		e.Reason = refusal(0, api.ErrorCode())
	case errors.As(err, &program):
		e.Reason = "the program failed, or printed no keys"
	default:
		e.Reason = f.reason(err)
	}
	if errors.As(err, &op) && op.ServiceID == imds.ServiceID {
		e.Reason = "nothing is found, and the instance has no role: " + e.Reason
	} else if op != nil {
		e.Reason = code(op.ServiceID) + " " + code(op.OperationName) + ": " + e.Reason
	}
	return e
}

// sign implements signer. What is signed is what a request says: host, path, query, content type, length, body, and the
// plugin's headers. Accept and the like are left out, so that a proxy between may change them.
//
// The path is signed as it is sent. SigV4 escapes what is sent once more before it hashes it, for every service but S3,
// and AWS does the same with what it receives: "%3A" on the wire is "%253A" in the hash on both sides.
func (s *awsSigner) sign(ctx context.Context, limit time.Time, out outgoing) ([]Header, error) {
	keys, err := s.keys.get(ctx, limit)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(out.base+out.Path, "?")
	r := &http.Request{
		Method: out.Method,
		// Opaque keeps the path as it is; a URL's own Path would be escaped by other rules than the sender's.
		URL:           &url.URL{Scheme: out.scheme, Host: out.host, Opaque: "//" + out.host + path, RawQuery: query},
		Host:          out.host,
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
		return nil, &CredentialError{Source: "AWS, " + s.source(), Reason: "the request cannot be signed"}
	}
	headers := make([]Header, 0, 3)
	for _, name := range []string{"X-Amz-Date", "X-Amz-Security-Token", "Authorization"} {
		if v := r.Header.Get(name); v != "" {
			headers = append(headers, Header{name, v})
		}
	}
	return headers, nil
}

// owns implements signer.
func (s *awsSigner) owns(name string) bool { return strings.HasPrefix(name, "x-amz-") }

// close implements signer.
func (s *awsSigner) close() {
	s.keys.close()
	s.redactor.forget(s)
}

func orText(s, def string) string {
	if s != "" {
		return s
	}
	return def
}
