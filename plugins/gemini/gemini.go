package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[gemini]("gemini") }

// format is the reasoning format of Gemini models. Reasoning in another format is never sent to them.
const format = "google-gemini-v1"

// gemini is an instance of the plugin. Its fields are settings and reused buffers; no data outlives a call.
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
