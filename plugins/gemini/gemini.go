package gemini

import (
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[gemini]("gemini") }

// format is the name of the form that this provider's reasoning has. Reasoning of another form is never replayed to it.
const format = "google-gemini-v1"

// gemini is one use of the plugin. What it holds besides the settings is memory only: nothing in it outlives a call.
type gemini struct {
	settings  options
	t         translation
	reader    json.Reader
	event     json.Members
	candidate candidate
	progress  progress
}

var (
	_ provider.Configurer = (*gemini)(nil)
	_ provider.Reader     = (*gemini)(nil)
	_ provider.Lister     = (*gemini)(nil)
)

// fitting is a name that the provider gave, nil if it is none that the contract takes.
func fitting(name []byte) []byte {
	if len(name) > abi.MaxName || !utf8.Valid(name) {
		return nil
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return nil
		}
	}
	return name
}

func number(n int) string { return string(json.AppendInt(nil, int64(n))) }
