// Command all contains all plugins that ship, built into one module because most of each separate module would be the
// Go runtime. A plugin is selected by the name of its folder.
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
