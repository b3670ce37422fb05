package importer

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Upper bounds of timeouts, in milliseconds.
const (
	maxTotal = 7 * 24 * 3600 * 1000
	maxIdle  = 24 * 3600 * 1000
)

// liteLLM translates the configuration of a LiteLLM proxy.
type liteLLM struct {
	d                     *document
	root                  *node
	router, lite, general *node
	credentials           map[string]*node
	providers             providers
	models                models
	timeout, firstByte    string // of all providers
	breaker               string
	attempts              string
	strategy              string               // as in the file
	wildcards             map[string]*provider // by the prefix of the models
	spreadNoted           bool
}

func translateLiteLLM(d *document, root *node) {
	l := &liteLLM{d: d, root: root, router: root.get("router_settings"), lite: root.get("litellm_settings"), general: root.get("general_settings"), credentials: map[string]*node{}, wildcards: map[string]*provider{}}
	l.models.d = d
	root.get("environment_variables")
	for _, c := range root.get("credential_list").items() {
		c.home = &d.notes[partProviders]
		c.get("credential_values")
		l.credentials[c.string("credential_name")] = c
	}
	l.settings()
	l.modelList()
	l.fallbacks()
	l.server()
	l.store()
	l.models.finish(l.strategy == "" || l.strategy == "simple-shuffle" || strings.HasPrefix(l.strategy, "usage-based"))
	for _, m := range l.models.all {
		l.spreadNoted = l.spreadNoted || m.regular() > 1
	}
	if l.spreadNoted && l.strategy != "cost-based-routing" {
		d.notes[partRouting].say(`The turns of a conversation stay with one target, whose prompt cache they hit. LiteLLM chooses a target for each request: for that, write affinity = "none" in [router].`)
	}
	l.routerTable()
}

// setting returns the value of a member that may be in router_settings or in litellm_settings.
func (l *liteLLM) setting(name string) *node {
	if l.router.peek(name) != nil {
		return l.router
	}
	return l.lite
}

// settings reads what applies to all providers and models.
func (l *liteLLM) settings() {
	l.timeout = l.setting("timeout").duration("timeout", 1000, 1, maxTotal)
	if l.timeout == "" {
		l.timeout = l.lite.duration("request_timeout", 1000, 1, maxTotal)
	}
	l.firstByte = l.router.duration("stream_timeout", 1000, 1, maxIdle)
	var failures, pause, most, enabled string
	if v, ok := l.setting("allowed_fails").number("allowed_fails", 0, 65535); ok {
		failures = strconv.Itoa(int(v) + 1)
	}
	cooldown := l.setting("cooldown_time")
	if pause = cooldown.duration("cooldown_time", 1000, 1, 3600*1000); pause != "" {
		if v, _ := cooldown.number("cooldown_time", 0, 3600); v > 60 {
			most = pause
		}
	}
	if off, _ := l.router.bool("disable_cooldowns"); off {
		enabled = "false"
	}
	l.breaker = inline("enabled", enabled, "failures", failures, "pause", pause, "max_pause", most)
	l.attempts = attemptsOf(l.setting("num_retries"), "num_retries")
	l.strategy = l.router.string("routing_strategy")
}

// modelList reads model_list. Models with a wildcard come first, so that their providers get the names that clients use
// in front of the model.
func (l *liteLLM) modelList() {
	all := l.root.get("model_list").items()
	for _, wild := range []bool{true, false} {
		for _, n := range all {
			name := n.peek("model_name")
			params := n.peek("litellm_params")
			if name == nil || params == nil || params.peek("model") == nil {
				n.why = "has no model_name or no litellm_params.model, and was left out."
				n.used = false
				continue
			}
			if strings.Contains(name.text+params.peek("model").text, "*") == wild {
				l.entry(n, n.string("model_name"), n.get("litellm_params"), n.get("model_info"), wild)
			}
		}
	}
}

// entry translates an element of model_list.
func (l *liteLLM) entry(n *node, id string, params, info *node, wild bool) {
	home := &l.d.notes[partModels]
	var m *model
	if !wild {
		m = l.models.get(id)
		home = m.table
	}
	n.home = home
	if c := l.credentials[params.string("litellm_credential_name")]; c != nil {
		params.nodes = append(slices.Clone(c.peek("credential_values").nodesOf()), params.nodes...)
	}
	name, upstream := split(params.string("model"))
	if custom := params.string("custom_llm_provider"); custom != "" {
		if name != custom && name != "" {
			upstream = name + "/" + upstream
		}
		name = custom
	}
	if name == "" {
		name = guessVendor(upstream)
	}
	v, known := vendorOf(name)
	if !known && params.peek("api_base") == nil {
		home.about(n, fmt.Sprintf("Sluice has no plugin for %s, and the file no api_base; left out. An upstream that is compatible with the OpenAI API is a provider with plugin = \"openai\" and base_url.", label(name)))
		markAll(n)
		return
	}
	if kind := kindOf(upstream + " " + id); kind == "none" && info.peek("mode") == nil {
		home.about(n, "seems to be a model for images or audio, which Sluice does not serve; left out.")
		markAll(n)
		return
	}
	p, upstream := l.provider(name, v, upstream, n, params)
	if p == nil {
		markAll(n)
		return
	}
	if wild {
		l.wildcard(n, id, upstream, p)
		return
	}
	l.target(m, upstream, name, p, n, params, info)
}

// guessVendor returns the vendor of a model that is written without one, as LiteLLM knows it.
func guessVendor(model string) string {
	for _, g := range []struct{ prefix, vendor string }{
		{"gpt-", "openai"}, {"chatgpt-", "openai"}, {"o1", "openai"}, {"o3", "openai"}, {"o4", "openai"}, {"text-embedding-", "openai"}, {"omni-moderation", "openai"},
		{"text-moderation", "openai"}, {"dall-e", "openai"}, {"tts-", "openai"}, {"whisper", "openai"}, {"davinci", "openai"}, {"babbage", "openai"}, {"ft:gpt", "openai"},
		{"claude-", "anthropic"}, {"gemini-", "vertex_ai"}, {"command", "cohere"}, {"embed-", "cohere"}, {"rerank-", "cohere"},
	} {
		if strings.HasPrefix(model, g.prefix) {
			return g.vendor
		}
	}
	return "openai"
}

var regionName = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)

// provider returns the provider for the parameters of a model, and the upstream's name of the model.
func (l *liteLLM) provider(name string, v vendor, upstream string, n, params *node) (*provider, string) {
	a := &account{vendor: v, name: name, vertexName: upstream, breaker: l.breaker, about: &table{}}
	variable := v.key
	if variable == "" {
		variable = variableFor(name, "_API_KEY")
	}
	members := []struct {
		name, variable, kind string
		to                   *string
	}{
		{"api_key", variable, "secret", &a.secret}, {"api_version", "", "text", &a.version}, {"base_url", variableFor(name, "_BASE_URL"), "url", &a.address},
		{"api_base", variableFor(name, "_BASE_URL"), "url", &a.address},
	}
	switch v.preset {
	case "bedrock":
		members = append(members[:1:1], []struct {
			name, variable, kind string
			to                   *string
		}{
			{"aws_region_name", "", "region", &a.region}, {"aws_access_key_id", "AWS_ACCESS_KEY_ID", "secret", &a.access}, {"aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "secret", &a.key2},
			{"aws_session_token", "AWS_SESSION_TOKEN", "secret", &a.session}, {"aws_profile_name", "", "text", &a.profile}, {"aws_bedrock_runtime_endpoint", "BEDROCK_BASE_URL", "url", &a.address},
		}...)
		members[0].variable = "AWS_BEARER_TOKEN_BEDROCK"
		for _, route := range []string{"converse/", "invoke/", "converse_like/"} {
			upstream = strings.TrimPrefix(upstream, route)
		}
		if before, after, found := strings.Cut(upstream, "/"); found && regionName.MatchString(before) {
			a.region, upstream = before, after
		}
	case "vertex":
		members = members[:0]
		a.project, a.location = l.d.value(params.get("vertex_project"), "", "text", a.about), l.d.value(params.get("vertex_location"), "", "region", a.about)
		a.credentials = l.d.file(params.get("vertex_credentials"), true)
	case "azure":
	default:
		members = append(members[:1:1], members[2:]...) // without api_version
	}
	for _, m := range members {
		if n := params.get(m.name); n != nil {
			*m.to = l.d.value(n, m.variable, m.kind, a.about)
		}
	}
	if a.secret == "" && v.key != "" && v.preset != "bedrock" {
		a.secret = l.d.use(v.key, "secret", "LiteLLM reads it for "+name)
	}
	total, first := params.duration("timeout", 1000, 1, maxTotal), params.duration("stream_timeout", 1000, 1, maxIdle)
	a.timeout = inline("first_byte", cmp.Or(first, l.firstByte), "total", cmp.Or(total, l.timeout))
	var secrets []string
	if a.secret != "" {
		secrets = []string{quote(a.secret)}
	}
	keys := a.keys(l.d, secrets...)
	if keys == nil {
		n.home.about(n, "Sluice's plugins for Vertex AI serve Gemini and Claude; left out.")
		return nil, ""
	}
	return l.providers.get(l.d, a, keys), upstream
}

// wildcard offers the models that a provider lists.
func (l *liteLLM) wildcard(n *node, id, upstream string, p *provider) {
	prefix, pattern := split(id)
	what := n.peek("model_name")
	notes := &l.d.notes[partModels]
	switch {
	case !p.lists:
		notes.about(what, fmt.Sprintf("%s has no list of models that Sluice could offer. Write each model: [[models]] with id and targets = [{ provider = %q, model = \"…\" }].", label(p.name), p.name))
		return
	case upstream != "*" && upstream != pattern:
		notes.about(what, "does not have the pattern of litellm_params.model; left out.")
		return
	}
	l.wildcards[prefix] = p
	only := ""
	if upstream != "*" {
		only = list([]string{plain(upstream)})
	}
	value := inline("only", only)
	if value == "" {
		value = "{ }"
	}
	if i := slices.IndexFunc(p.table.keys, func(k entry) bool { return k.name == "list_models" }); i < 0 {
		p.table.set("list_models", value)
	}
	text := fmt.Sprintf("offers the models that %s lists, as MODEL and as %s/MODEL (list_models).", p.name, p.name)
	if prefix != "" && prefix != p.name {
		text = fmt.Sprintf("clients write %s/MODEL: the provider has another name, since its own is taken.", p.name)
	}
	if n.peek("litellm_params").peek("model").text == "*" {
		text += " LiteLLM sends the models of other providers to those: list_models = { } in each of them offers theirs."
	}
	p.table.about(what, text)
}

// modes are the values of model_info.mode, and the kinds of requests.
var modes = map[string]string{
	"chat": "chat", "responses": "chat", "completion": "completions", "embedding": "embeddings", "rerank": "rerank", "moderation": "moderations",
}

// target adds the target of an element of model_list.
func (l *liteLLM) target(m *model, upstream, vendorName string, p *provider, n, params, info *node) {
	kind := kindOf(upstream + " " + m.id)
	if mode := info.string("mode"); mode != "" {
		if kind = modes[mode]; kind == "" {
			m.table.about(n, "Sluice has no endpoint for this kind of model (mode); left out.")
			markAll(n)
			return
		}
	} else if vendorName == "text-completion-openai" {
		kind = "completions"
	}
	if kind == "" {
		kind = "chat"
	}
	m.kinds = append(m.kinds, kind)
	t := target{provider: p.name, model: upstream}
	if v, ok := params.number("weight", 0, maxWeight); ok {
		t.weight, t.share = v, true
	}
	t.priority = params.integer("order", -maxWeight, maxWeight)
	t.pricing = l.pricing(m, params, info)
	l.rates(m, &t, n, params)
	m.add(t)
	for _, name := range []string{"max_output_tokens", "max_tokens"} {
		m.key("max_tokens", info.integer(name, 1, 1<<40))
	}
	m.key("retry", inline("attempts", cmp.Or(attemptsOf(params, "num_retries"), attemptsOf(params, "max_retries"), l.attempts)))
}

// rates reads rpm and tpm, which LiteLLM uses as weights of several targets.
func (l *liteLLM) rates(m *model, t *target, n, params *node) {
	var limits [2]string
	for i, name := range []string{"rpm", "tpm"} {
		of := params
		if params.peek(name) == nil {
			of = n
		}
		v, ok := of.number(name, 1, 1e9)
		if !ok {
			continue
		}
		limits[i] = strconv.FormatInt(int64(v), 10)
		m.rates = append(m.rates, of.peek(name))
		if !t.share {
			t.weight, t.share = v, true
		}
	}
	m.limits = inline("requests_per_minute", limits[0], "tokens_per_minute", limits[1])
}

// prices are the members with the price of a token, and the keys of Sluice.
var prices = []struct{ member, key string }{
	{"input_cost_per_token", "input"}, {"output_cost_per_token", "output"}, {"cache_read_input_token_cost", "cached_input"},
	{"cache_creation_input_token_cost", "cache_write"}, {"output_cost_per_reasoning_token", "reasoning"}, {"input_cost_per_audio_token", "audio_input"},
	{"output_cost_per_audio_token", "audio_output"}, {"input_cost_per_request", "per_request"},
}

var priceText = regexp.MustCompile(`^[0-9]{0,12}(\.[0-9]{0,24})?([eE][-+]?[0-9]{1,2})?$`)

// pricing returns the prices of a target.
func (l *liteLLM) pricing(m *model, params, info *node) string {
	var pairs []string
	for _, p := range prices {
		n := info.get(p.member)
		if c := params.get(p.member); c != nil {
			n = c
		}
		if n == nil {
			continue
		}
		value, ok := new(big.Rat).SetString(n.text)
		if !n.scalar || !priceText.MatchString(n.text) || !ok {
			n.refuse("is not a price, and was left out.")
			continue
		}
		if p.key != "per_request" {
			value.Mul(value, big.NewRat(1_000_000, 1))
		}
		text := value.FloatString(12)
		pairs = append(pairs, p.key, strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
	return inline(pairs...)
}

// fallbacks adds the fallbacks and the aliases of models.
func (l *liteLLM) fallbacks() {
	own := slices.Clone(l.models.all)
	for _, holder := range []*node{l.router, l.lite} {
		for _, group := range holder.get("fallbacks").items() {
			for _, n := range group.nodesOf() {
				n.used = true
				l.fallBack(n, n.name, own)
			}
		}
		if n := holder.get("default_fallbacks"); n != nil {
			l.fallBack(n, "*", own)
		}
	}
	aliases := l.router.get("model_group_alias")
	for _, n := range aliases.nodesOf() {
		of := n.text
		n.used = true
		if n.object {
			of = n.string("model")
		}
		m := l.models.find(of)
		switch {
		case m == nil:
			l.d.notes[partModels].about(n, "is an alias of a model that is not in model_list; left out.")
			markAll(n)
		case l.models.find(n.name) != nil:
			l.d.notes[partModels].about(n, "is also the name of a model, which is used.")
			markAll(n)
		default:
			alias := l.models.get(n.name)
			alias.kinds, alias.targets, alias.keys, alias.limits = m.kinds, slices.Clone(m.targets), m.keys, m.limits
			alias.table.about(n, "an alias of "+label(of)+", with the same targets. Limits and budgets count for each of the two.")
		}
	}
}

// fallBack adds the models that a value lists as fallbacks of a model, or of all with "*".
func (l *liteLLM) fallBack(n *node, of string, all []*model) {
	for _, name := range n.texts() {
		other := l.models.find(name)
		if prefix, upstream := split(name); other == nil && l.wildcards[prefix] != nil {
			other = &model{id: name, targets: []target{{provider: l.wildcards[prefix].name, model: upstream}}}
		}
		found := false
		for _, m := range all {
			if other != nil && m != other && (m.id == of || of == "*") && len(m.targets) > 0 {
				m.fallBack(other)
				found = true
			}
		}
		if !found {
			l.d.notes[partModels].about(n, label(name)+" could not be made a fallback: one of the two models is not among those above. Write its target with fallback = true.")
		}
	}
}

// server writes [server] and the key of the operator.
func (l *liteLLM) server() {
	t := l.d.table(partServer, "[server]")
	port := cmp.Or(l.general.integer("port", 1, 65535), "4000")
	t.say("LiteLLM listens on all addresses, at port 4000 unless --port is given. An address that other machines reach needs [[keys]].")
	t.set("listen", quote("127.0.0.1:"+port))
	t.set("max_requests", l.general.integer("global_max_parallel_requests", 1, 1<<20))
	if size := l.general.integer("max_request_size_mb", 1, 1024); size != "" {
		t.set("max_body", quote(size+"MiB"))
	}
	if json, _ := l.lite.bool("json_logs"); json {
		t.set("log_format", quote("json"))
	}
	if verbose, _ := l.lite.bool("set_verbose"); verbose {
		t.set("log_level", quote("debug"))
	}
	n := l.general.get("master_key")
	if n == nil || !n.scalar {
		l.d.notes[partClients].say("There is no master_key, so requests need no key. `sluice keys new NAME` prints a key and its [[keys]].")
		return
	}
	k := l.d.table(partClients, "[[keys]]")
	k.say("The master key. It may use all models, and has no other rights: Sluice has no API for administration. Give each client a key of its own with `sluice keys new NAME`.")
	k.set("name", quote("master"))
	k.set("secret", quote(l.d.value(n, "LITELLM_MASTER_KEY", "secret", k)))
}

// store writes [store] for router_settings.redis_*.
func (l *liteLLM) store() {
	t := &table{header: "[store]"}
	if n := l.router.get("redis_url"); n != nil && n.scalar {
		t.set("url", quote(l.d.value(n, "REDIS_URL", "redis", t)))
	} else if n := l.router.get("redis_host"); n != nil && n.scalar {
		address := "redis://"
		if p := l.router.get("redis_password"); p != nil && p.scalar {
			address += ":" + l.d.value(p, "REDIS_PASSWORD", "secret", t) + "@"
			t.say("In the password, characters other than letters and digits have to be written as %%XX.")
		}
		address += l.d.value(n, "", "host", t)
		if p := l.router.get("redis_port"); p != nil && p.scalar {
			address += ":" + l.d.value(p, "", "port", t)
		}
		t.set("url", quote(address))
	}
	if len(t.keys) > 0 {
		t.say("Gateways with the same Redis count the limits and budgets of keys, teams, models and providers together.")
		l.d.tables[partStore] = append(l.d.tables[partStore], t)
	}
}

// strategies are LiteLLM's routing strategies, and Sluice's.
var strategies = map[string]string{"latency-based-routing": "least-latency", "least-busy": "least-latency", "cost-based-routing": "cheapest"}

// routerTable writes [router].
func (l *liteLLM) routerTable() {
	n := l.router.peek("routing_strategy")
	if l.strategy == "" {
		return
	}
	strategy := strategies[l.strategy]
	switch {
	case strategy != "":
		t := l.d.table(partRouting, "[router]")
		t.set("strategy", quote(strategy))
		if l.strategy == "least-busy" {
			t.about(n, "Sluice does not order targets by their requests in flight; the nearest to least-busy is least-latency.")
		}
	case strings.HasPrefix(l.strategy, "usage-based"):
		l.d.notes[partRouting].about(n, "Sluice does not order targets by their use in the current minute; the weights above are their rpm or tpm. A target whose provider has reached its limits is passed over.")
	case l.strategy != "simple-shuffle":
		l.d.notes[partRouting].about(n, label(l.strategy)+" is unknown here; the weights of targets are used.")
	}
}
