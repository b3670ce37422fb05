package importer

import (
	"fmt"
	"slices"
	"strings"
)

// vendor is an upstream as the other gateways name it.
type vendor struct {
	preset string // of Sluice; "" for an upstream that is only known to be compatible with the OpenAI API
	base   string // base_url, if there is no preset
	key    string // variable that LiteLLM reads by default
	url    string // variable with the address that LiteLLM reads by default
	lists  bool   // lists its models
}

// vendors are the upstreams that both programs name, by their names without "_" and "-".
var vendors = map[string]vendor{
	"openai":               {preset: "openai", key: "OPENAI_API_KEY", lists: true},
	"textcompletionopenai": {preset: "openai", key: "OPENAI_API_KEY", lists: true},
	"azure":                {preset: "azure", key: "AZURE_API_KEY", url: "AZURE_API_BASE"},
	"anthropic":            {preset: "anthropic", key: "ANTHROPIC_API_KEY", lists: true},
	"bedrock":              {preset: "bedrock"},
	"bedrockconverse":      {preset: "bedrock"},
	"vertexai":             {preset: "vertex"},
	"vertex":               {preset: "vertex"},
	"gemini":               {preset: "gemini", key: "GEMINI_API_KEY", lists: true},
	"cohere":               {preset: "cohere", key: "COHERE_API_KEY", lists: true},
	"coherechat":           {preset: "cohere", key: "COHERE_API_KEY", lists: true},
	"mistral":              {preset: "mistral", key: "MISTRAL_API_KEY", lists: true},
	"deepseek":             {preset: "deepseek", key: "DEEPSEEK_API_KEY", lists: true},
	"groq":                 {preset: "groq", key: "GROQ_API_KEY", lists: true},
	"xai":                  {preset: "xai", key: "XAI_API_KEY", lists: true},
	"openrouter":           {preset: "openrouter", key: "OPENROUTER_API_KEY", lists: true},
	"perplexity":           {preset: "perplexity", key: "PERPLEXITYAI_API_KEY"},
	"togetherai":           {preset: "together", key: "TOGETHERAI_API_KEY", lists: true},
	"fireworksai":          {preset: "fireworks", key: "FIREWORKS_AI_API_KEY", lists: true},
	"fireworks":            {preset: "fireworks", key: "FIREWORKS_API_KEY", lists: true},
	"zai":                  {preset: "zai", key: "ZAI_API_KEY"},
	"hostedvllm":           {preset: "vllm", url: "HOSTED_VLLM_API_BASE", lists: true},
	"vllm":                 {preset: "vllm", url: "VLLM_BASE_URL", lists: true},
	"lmstudio":             {preset: "lmstudio", url: "LM_STUDIO_API_BASE", lists: true},
	"ollama":               {preset: "ollama", lists: true},
	"ollamachat":           {preset: "ollama", lists: true},
	"litellmproxy":         {url: "LITELLM_PROXY_API_BASE", key: "LITELLM_PROXY_API_KEY", lists: true},
	"openailike":           {url: "OPENAI_LIKE_API_BASE", key: "OPENAI_LIKE_API_KEY"},
	"customopenai":         {url: "OPENAI_LIKE_API_BASE", key: "OPENAI_LIKE_API_KEY"},
	"sgl":                  {url: "SGL_BASE_URL"},
	"nvidianim":            {base: "https://integrate.api.nvidia.com/v1", key: "NVIDIA_NIM_API_KEY", lists: true},
	"cerebras":             {base: "https://api.cerebras.ai/v1", key: "CEREBRAS_API_KEY", lists: true},
	"sambanova":            {base: "https://api.sambanova.ai/v1", key: "SAMBANOVA_API_KEY", lists: true},
	"deepinfra":            {base: "https://api.deepinfra.com/v1/openai", key: "DEEPINFRA_API_KEY", lists: true},
	"moonshot":             {base: "https://api.moonshot.ai/v1", key: "MOONSHOT_API_KEY", lists: true},
	"nebius":               {base: "https://api.studio.nebius.ai/v1", key: "NEBIUS_API_KEY", lists: true},
	"parasail":             {base: "https://api.parasail.io/v1", key: "PARASAIL_API_KEY", lists: true},
	"huggingface":          {base: "https://router.huggingface.co/v1", key: "HF_TOKEN", lists: true},
}

func vendorOf(name string) (vendor, bool) {
	v, ok := vendors[strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))]
	return v, ok
}

// account is what an upstream is called with. Its texts are for strings of the configuration, without the quotes.
type account struct {
	vendor
	name                                       string // for the provider
	address, secret, version                   string
	region, access, key2, session, profile     string // of AWS
	project, location, credentials, vertexName string // of Google; vertexName is the model
	timeout, conns, private, breaker           string // keys of the provider, with quotes
	about                                      *table // comments for the provider
}

// keys returns the keys of the provider for an account, with its secret or secrets, or nil if no plugin serves it.
func (a *account) keys(d *document, secrets ...string) (keys []entry) {
	add := func(name, value string) {
		if value != "" {
			keys = append(keys, entry{name: name, value: value})
		}
	}
	auth, options := "", ""
	switch len(secrets) {
	case 0:
	case 1:
		auth = inline("secret", secrets[0])
	default:
		auth = inline("secrets", list(secrets))
	}
	plugin := a.preset
	switch a.preset {
	case "vertex":
		plugin = "gemini"
		if strings.Contains(a.vertexName, "claude") {
			plugin = "anthropic"
		} else if !strings.Contains(a.vertexName, "gemini") && !strings.Contains(a.vertexName, "embedding") {
			return nil
		}
		project, location := a.project, a.location
		if project == "" {
			project = d.use("VERTEXAI_PROJECT", "text", "the project for Vertex AI")
		}
		if location == "" {
			location = d.use("VERTEXAI_LOCATION", "region", "the location for Vertex AI")
		}
		a.address = "https://" + strings.TrimPrefix(location+"-aiplatform.googleapis.com", "global-")
		google := quote("adc")
		if a.credentials != "" {
			google = inline("credentials_file", quote(a.credentials))
		}
		auth = inline("google", google)
		options = inline("api", quote("vertex"), "project", quote(project), "location", quote(location))
	case "bedrock":
		if auth == "" {
			auth = inline("aws", "{ "+strings.TrimPrefix(strings.TrimSuffix(inline("region", optional(a.region), "profile", optional(a.profile), "access_key_id", optional(a.access),
				"secret_access_key", optional(a.key2), "session_token", optional(a.session)), " }"), "{ ")+" }")
		} else if a.region != "" && a.address == "" {
			a.address = "https://bedrock-runtime." + a.region + ".amazonaws.com"
		}
	case "azure":
		if i := strings.LastIndex(a.address, "/openai"); i > len("https://") {
			if strings.HasPrefix(a.address[i:], "/openai/v1") {
				plugin = "azure-v1"
				i += len("/openai/v1")
			}
			a.address = a.address[:i]
		}
		if plugin == "azure" {
			options = inline("api_version", optional(a.version))
		}
	case "openai":
		if a.address != "" && a.address != "https://api.openai.com/v1" {
			plugin = ""
		}
	case "ollama":
		if a.address != "" && !strings.HasSuffix(a.address, "/v1") {
			a.address += "/v1"
		}
	case "anthropic":
		a.address = strings.TrimSuffix(strings.TrimSuffix(a.address, "/messages"), "/v1")
	}
	address := a.address
	if address == "" && a.url != "" {
		address = d.use(a.url, "url", "the address of "+a.name)
	}
	if address == "" {
		address = a.base
	}
	switch {
	case plugin == "":
		add("plugin", quote("openai"))
	case a.preset == "vertex":
		add("plugin", quote(plugin))
	default:
		add("preset", quote(plugin))
	}
	add("base_url", optional(address))
	add("auth", auth)
	add("options", options)
	add("timeout", a.timeout)
	add("breaker", a.breaker)
	add("max_conns", a.conns)
	add("allow_private", a.private)
	return keys
}

// provider is a provider of the configuration that is written.
type provider struct {
	name   string
	table  *table
	keys   []entry // to recognise an equal one
	lists  bool
	limits string
	used   bool // by a model, so that limits can apply
}

// providers are the providers by what makes them differ: the keys of their tables.
type providers []*provider

// get returns the provider with these keys, and creates it if there is none.
func (ps *providers) get(d *document, a *account, keys []entry) *provider {
	i := slices.IndexFunc(*ps, func(p *provider) bool { return slices.Equal(p.keys, keys) })
	if i < 0 {
		base := clean(a.name)
		unique := base
		for n := 2; ps.named(unique) != nil; n++ {
			unique = fmt.Sprintf("%s-%d", base, n)
		}
		i = len(*ps)
		p := &provider{name: unique, table: d.table(partProviders, "[providers."+bare(unique)+"]"), keys: keys, lists: a.lists}
		p.table.keys = slices.Clone(keys)
		*ps = append(*ps, p)
	}
	p := (*ps)[i]
	p.table.merge(a.about)
	return p
}

func (ps *providers) named(name string) *provider {
	if i := slices.IndexFunc(*ps, func(p *provider) bool { return p.name == name }); i >= 0 {
		return (*ps)[i]
	}
	return nil
}

// clean returns a name of the configuration: letters, digits, ".", "_" and "-".
func clean(name string) string {
	var b strings.Builder
	for _, r := range name {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9'
		if !letter && (b.Len() == 0 || r != '.' && r != '_' && r != '-') {
			r = '-'
		}
		if b.Len() > 0 || letter {
			b.WriteRune(r)
		}
	}
	name = strings.Trim(b.String()[:min(b.Len(), 48)], "-")
	if name == "" {
		return "unnamed"
	}
	return name
}

// bare returns a name as a TOML key.
func bare(name string) string {
	if strings.Contains(name, ".") {
		return quote(name)
	}
	return name
}

// variableFor returns a name for a variable that has to do with a name of the file.
func variableFor(name, suffix string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(clean(name))) + suffix
}

// kindOf returns the kind of requests that a model is for, judged by its name: "" for conversations, and "none" for one
// that Sluice has no endpoint for.
func kindOf(model string) string {
	model = strings.ToLower(model)
	for _, k := range []struct{ part, kind string }{
		{"embed", "embeddings"}, {"rerank", "rerank"}, {"moderation", "moderations"}, {"dall-e", "none"}, {"gpt-image", "none"}, {"whisper", "none"},
		{"tts", "none"}, {"imagen", "none"}, {"stable-diffusion", "none"}, {"transcribe", "none"}, {"realtime", "none"}, {"nova-canvas", "none"}, {"sora", "none"},
		{"-instruct", ""},
	} {
		if strings.Contains(model, k.part) {
			return k.kind
		}
	}
	return ""
}

// optional returns a TOML string, or "" for none.
func optional(s string) string {
	if s == "" {
		return ""
	}
	return quote(s)
}
