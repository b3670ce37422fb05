package anthropic

import (
	"bytes"
	"strings"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Forms declares that the provider takes requests of Messages clients as they are.
func (p *anthropic) Forms() abi.Forms { return abi.FormMessages }

// passMessages sends the request of a Messages client. Prompt caches and signed thinking depend on its bytes, so only the model is
// edited. The options that say what a model takes are for requests that this plugin writes: the client knows its model.
func (p *anthropic) passMessages(r *provider.Request, o *options) {
	if o.cloud == noCloud {
		r.SetText("/model", r.Target)
	} else {
		r.Delete("/model")
		r.Set("/anthropic_version", []byte(`"`+o.cloud.version()+`"`))
	}
	setTarget(r, o)
	if o.cloud == bedrock {
		r.Delete("/stream") // the path says it
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
}

// appendList appends the words of a header anthropic-beta as a JSON array, which is the body's member on Bedrock. They need no escapes.
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

// maxBetas bounds the header anthropic-beta, which the gateway refuses from 4 KiB on.
const maxBetas = 2 << 10

// joinBetas returns the header anthropic-beta: the operator's, then those of the client that the provider takes, in its order.
func joinBetas(r *provider.Request, o *options) []byte {
	joined := []byte(o.beta)
	var in json.Reader
	in.Reset(r.Betas)
	for a := in.Array(); a.Next(); {
		beta := in.Text()
		switch {
		case hasBeta(joined, beta):
		case o.takesBeta(beta) && len(joined)+1+len(beta) <= maxBetas:
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

// hasBeta reports whether a header has a word.
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

// marksClient reports whether a beta only says which client is asking: a provider that does not take it misses nothing.
func marksClient(beta []byte) bool {
	return bytes.HasPrefix(beta, []byte("claude-code-")) || bytes.HasPrefix(beta, []byte("oauth-"))
}

// takesBeta reports whether the provider takes a beta.
func (o *options) takesBeta(beta []byte) bool {
	for _, c := range beta {
		if !translate.NameByte(c) && c != '.' {
			return false // it could not stand in the header
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
