package ollama

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// invalid is a mistake of the client's that no target would take.
func invalid(code, param, text string) error {
	return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: code, Param: param, Message: text}
}

// unsupported is content that another provider may take.
func unsupported(param, text string) error {
	return &sdk.Failure{Kind: abi.FailUnsupported, Code: "unsupported_content", Param: param, Message: text}
}

// printable is a member's name as a warning may show it.
func printable(name []byte) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	out := make([]byte, 0, len(name))
	for _, c := range name {
		if c <= ' ' || c > '~' || c == ',' {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

func number(n int) string { return string(json.AppendInt(nil, int64(n))) }
