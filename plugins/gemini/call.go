package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// emitCall emits a complete tool call, the start of one, or more arguments of the current one.
func (q *piece) emitCall(a *provider.Answer, p *progress, choice int32) error {
	var (
		id, name      []byte
		args, partial json.Value
		more          bool
		r             json.Reader
	)
	r.Reset(q.call)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "id":
			id = r.Text()
		case "name":
			name = r.Text()
		case "args":
			args = r.Raw()
		case "partialArgs":
			partial = r.Raw()
		case "willContinue":
			more, _ = r.Bool()
		}
	}
	hasArgs := args.Kind() == json.Object
	s := p.lookupOrAdd(choice)
	switch {
	case len(name) > 0:
		p.endCall(a, choice)
		key, err := p.callKey(a, s)
		if err != nil {
			return err
		}
		if name = provider.FitName(name); len(name) == 0 {
			return badCall()
		}
		s.flags |= called
		a.ToolCall(choice, key, provider.FitName(id), name)
		inPieces := more || partial != nil
		switch {
		case inPieces:
		case hasArgs:
			a.ToolArguments(choice, key, abi.EncodingUTF8, p.compact(args))
		default:
			a.ToolEnd(choice, key)
		}
		q.emitCallSignature(a, choice, key)
		if !inPieces {
			a.ToolEnd(choice, key)
			return nil
		}
		s.key, s.path = key, nil
		s.flags = s.flags&^(written|quoted|signed) | calling
		if len(q.signature) > 0 {
			s.flags |= signed
		}
	case s.has(calling):
		p.dirty = true
		if !s.has(signed) && len(q.signature) > 0 {
			s.flags |= signed
			q.emitCallSignature(a, choice, s.key)
		}
	case hasArgs || partial != nil:
		return badCall()
	default:
		a.Unknown([]byte("call without a name"))
		return nil
	}
	if err := p.emitArguments(a, s, partial); err != nil {
		return err
	}
	if !more {
		if hasArgs && !s.has(written) {
			a.ToolArguments(choice, s.key, abi.EncodingUTF8, p.compact(args))
		}
		p.endCall(a, choice)
	}
	return nil
}

// compact returns a JSON value without insignificant white space. It is valid until the next piece of arguments. The
// gateway could do this as well (abi.EncodingJSON), but would reject duplicate members as a mistake of the plugin,
// while they are the model's and should reach the client.
func (p *progress) compact(value json.Value) []byte {
	p.text = translate.AppendCompact(p.text[:0], value)
	return p.text
}

func badCall() error {
	return sdk.Fail(abi.FailBadToolCall, "The provider's response calls a tool without a valid name.")
}

// emitCallSignature emits the signature of a call, in both forms in which clients may return it.
func (q *piece) emitCallSignature(a *provider.Answer, choice, key int32) {
	if len(q.signature) == 0 {
		return
	}
	const head, tail = `{"google":{"thought_signature":"`, `"}}`
	w := make([]byte, 0, len(head)+len(q.signature)+len(tail))
	w = append(append(append(w, head...), q.signature...), tail...)
	a.Extra(abi.ScopeTool, choice, key, "extra_content", w)
	a.Reasoning(choice, abi.ReasoningToolEncrypted, key, abi.EncodingEscaped, q.signature)
}
