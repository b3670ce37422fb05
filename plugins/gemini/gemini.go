package gemini

import (
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
