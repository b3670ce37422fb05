package anthropic

import (
	"bytes"
	"strings"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Forms declares that requests of Messages clients need no translation.
func (p *anthropic) Forms() abi.Forms { return abi.FormMessages }

// threadsBeta is the beta with which a client may create threads and continue them.
const threadsBeta = "message-threads-2026-08-12"

// checkThread removes the thread from a request for a provider that would ignore or reject it. It fails if the request
// continues a thread, because the provider would lack the beginning of the conversation.
func checkThread(r *provider.Request, o *options) error {
	if o.holdsThreads() {
		return nil
	}
	thread := r.Get("/thread")
	if thread.Kind() != json.Object {
		return nil
	}
	if !thread.Get("type").Is("create") {
		return &sdk.Failure{Kind: abi.FailModelNotFound, Code: "thread_not_found", Message: "thread_not_found: the provider of this model holds no threads; send the whole conversation."}
	}
	r.Delete("/thread")
	r.Warn(abi.WarnDropped, "thread")
	return nil
}

// holdsThreads reports whether the provider holds threads and accepts their beta.
func (o *options) holdsThreads() bool {
	beta := []byte(threadsBeta)
	return o.threads && o.cloud == noCloud && (o.acceptsBeta(beta) || hasBeta([]byte(o.beta), beta))
}

// passMessages sends the request of a Messages client. Only the model is edited, because prompt caches and signed
// thinking depend on the exact bytes. Options about a model's abilities do not apply; they are for requests that this
// plugin writes.
func (p *anthropic) passMessages(r *provider.Request, o *options) error {
	if err := checkThread(r, o); err != nil {
		return err
	}
	if o.cloud == noCloud {
		r.SetText("/model", r.Target)
	} else {
		r.Delete("/model")
		r.Set("/anthropic_version", []byte(`"`+o.cloud.version()+`"`))
	}
	setTarget(r, o)
	if o.cloud == bedrock {
		r.Delete("/stream") // the path implies it
	}
	if betas := joinBetas(r, o); len(betas) == 0 {
		// None.
	} else if o.cloud == bedrock {
		r.Set("/anthropic_beta", appendList(nil, string(betas)))
	} else {
		r.SetHeader("anthropic-beta", string(betas))
	}
	framing := abi.FramingJSON
	if r.Stream {
		framing = o.cloud.framing()
	}
	r.Expect(framing, abi.DialectMessages, nil)
	return nil
}

// appendList appends the values of an anthropic-beta header as a JSON array, which is a member of the body on Bedrock.
// They need no escapes.
func appendList(dst []byte, header string) []byte {
	dst = append(dst, '[')
	for word := range strings.SplitSeq(header, ",") {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), strings.TrimSpace(word)...), '"')
	}
	return append(dst, ']')
}

// maxBetas is the maximum length of the anthropic-beta header. The gateway rejects headers of more than 4 KiB.
const maxBetas = 2 << 10

// joinBetas returns the anthropic-beta header: the operator's values, followed by the client's values that the provider
// accepts.
func joinBetas(r *provider.Request, o *options) []byte {
	joined := []byte(o.beta)
	var in json.Reader
	in.Reset(r.Betas)
	for a := in.Array(); a.Next(); {
		beta := in.Text()
		switch {
		case hasBeta(joined, beta):
		case o.acceptsBeta(beta) && len(joined)+1+len(beta) <= maxBetas:
			if len(joined) > 0 {
				joined = append(joined, ',')
			}
			joined = append(joined, beta...)
		case !marksClient(beta):
			r.Warn(abi.WarnDropped, "anthropic-beta "+translate.Printable(beta))
		}
	}
	return joined
}

// hasBeta reports whether a header contains a value.
func hasBeta(header, beta []byte) bool {
	for len(header) > 0 {
		word, rest, _ := bytes.Cut(header, []byte{','})
		if bytes.Equal(bytes.TrimSpace(word), beta) {
			return true
		}
		header = rest
	}
	return false
}

// marksClient reports whether a beta only identifies the client, so that a provider without it lacks nothing.
func marksClient(beta []byte) bool {
	return bytes.HasPrefix(beta, []byte("claude-code-")) || bytes.HasPrefix(beta, []byte("oauth-"))
}

// acceptsBeta reports whether the provider accepts a beta.
func (o *options) acceptsBeta(beta []byte) bool {
	for _, c := range beta {
		if !translate.NameByte(c) && c != '.' {
			return false // not allowed in the header
		}
	}
	patterns := o.betas
	switch {
	case len(beta) == 0:
		return false
	case patterns == nil && o.cloud == noCloud:
		return true
	case patterns == nil:
		patterns = o.cloud.betas()
	}
	for _, pattern := range patterns {
		prefix, isPrefix := bytes.CutSuffix([]byte(pattern), []byte{'*'})
		if isPrefix && bytes.HasPrefix(beta, prefix) || string(beta) == pattern {
			return true
		}
	}
	return false
}
