package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[gemini]("gemini") }

// format names this provider's reasoning format. Reasoning in another format is never sent to it.
const format = "google-gemini-v1"

// gemini is an instance of the plugin. Except for the settings its fields are reused buffers; no data outlives a call.
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
	_ provider.Former     = (*gemini)(nil)
	_ provider.Reader     = (*gemini)(nil)
	_ provider.Lister     = (*gemini)(nil)
)
