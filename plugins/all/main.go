// Command all is the plugins that ship, as the one module that they are built into: most of each would be the Go
// runtime. Each is selected by the name of its folder.
package main

import (
	_ "github.com/sluice-gateway/sluice/plugins/anthropic"
	_ "github.com/sluice-gateway/sluice/plugins/bedrock"
	_ "github.com/sluice-gateway/sluice/plugins/blocklist"
	_ "github.com/sluice-gateway/sluice/plugins/cohere"
	_ "github.com/sluice-gateway/sluice/plugins/demo"
	_ "github.com/sluice-gateway/sluice/plugins/gemini"
	_ "github.com/sluice-gateway/sluice/plugins/ollama"
	_ "github.com/sluice-gateway/sluice/plugins/openai"
	_ "github.com/sluice-gateway/sluice/plugins/router"
	_ "github.com/sluice-gateway/sluice/plugins/secrets"
)

func main() {}
