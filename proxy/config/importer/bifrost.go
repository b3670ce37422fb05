package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// bifrost translates the configuration of a Bifrost gateway.
type bifrost struct {
	d         *document
	root      *node
	providers providers
	models    models
	all       bool              // an empty list of models or providers means all of them (version 1)
	offered   map[string]string // names of Sluice's first provider by those of Bifrost
	teams     map[string]string // names of teams by the ids of teams and customers
	named     map[string]bool   // names of keys and teams that are taken
}

func translateBifrost(d *document, root *node) {
	b := &bifrost{d: d, root: root, offered: map[string]string{}, teams: map[string]string{}, named: map[string]bool{}}
	b.models.d = d
	if v, ok := root.number("version", 1, 2); ok {
		b.all = v == 1
	}
	b.server()
	for _, n := range root.get("providers").nodesOf() {
		n.used = true
		b.provider(n)
	}
	b.governance(root.get("governance"))
	for _, p := range b.providers {
		switch {
		case p.used:
			p.table.set("limits", p.limits)
		case p.limits != "":
			p.table.say("When a model has a target here, add limits = %s.", p.limits)
		}
	}
	b.models.finish(true)
}

// server writes [server].
func (b *bifrost) server() {
	client := b.root.get("client")
	t := b.d.table(partServer, "[server]")
	t.say("Bifrost listens at port 8080, on the host in --host. An address that other machines reach needs [[keys]].")
	t.set("listen", quote("127.0.0.1:8080"))
	if size := client.integer("max_request_body_size_mb", 1, 1024); size != "" {
		t.set("max_body", quote(size+"MiB"))
	}
}

// provider translates a member of providers: a provider of Sluice for each of its keys, unless they differ only in the
// credential.
func (b *bifrost) provider(n *node) {
	notes := &b.d.notes[partProviders]
	name := n.name
	custom := n.get("custom_provider_config")
	kind := cmp.Or(custom.string("base_provider_type"), name)
	v, known := vendorOf(kind)
	if !known {
		notes.about(n, fmt.Sprintf("Sluice has no plugin for %s; left out. An upstream that is compatible with the OpenAI API is a provider with plugin = \"openai\" and base_url.", label(kind)))
		markAll(n)
		return
	}
	n.home = notes
	network, queue := n.get("network_config"), n.get("concurrency_and_buffer_size")
	elements := n.get("keys").items()
	if keyless, _ := custom.bool("is_key_less"); keyless || len(elements) == 0 {
		elements = append(elements, &node{path: n.path, line: n.line, object: true, up: n})
	}
	shared := account{vendor: v, name: name}
	shared.timeout = inline("idle", network.duration("stream_idle_timeout_in_seconds", 1000, 1, maxIdle), "total", network.duration("default_request_timeout_in_seconds", 1000, 1, maxTotal))
	shared.conns = network.integer("max_conns_per_host", 1, 1<<20)
	if private, _ := network.bool("allow_private_network"); private {
		shared.private = "true"
	}
	var groups []*group
	for _, e := range elements {
		if enabled, set := e.bool("enabled"); set && !enabled {
			notes.about(e, "is not enabled; left out.")
			markAll(e)
			continue
		}
		g := b.group(shared, n, e, kind != name)
		if g == nil {
			notes.about(e, "Sluice's plugins for Vertex AI serve Gemini and Claude, and these models are others; left out.")
			markAll(e)
			continue
		}
		if i := slices.IndexFunc(groups, g.equal); i >= 0 {
			groups[i].secrets = append(groups[i].secrets, g.secrets...)
			groups[i].about.merge(g.about)
			e.home = groups[i].about
			continue
		}
		groups = append(groups, g)
	}
	retry := ""
	if attempts := attemptsOf(network, "max_retries"); attempts != "" {
		backoff := network.duration("retry_backoff_initial", 1, 0, 60_000)
		retry = inline("attempts", attempts, "backoff", cmp.Or(network.duration("retry_backoff_initial_ms", 1, 0, 60_000), backoff))
	}
	limits := inline("concurrent", queue.integer("concurrency", 1, 1e9))
	for i, g := range groups {
		p := b.providers.get(b.d, &g.account, g.keys(b.d, g.secrets...))
		p.limits = limits
		g.n.home = p.table
		if i == 0 {
			b.offered[name], n.home = p.name, p.table
		}
		if key := g.n.string("name"); key != "" && len(groups) > 1 {
			p.table.say("The key %s.", label(key))
		}
		if g.every && v.lists && i == 0 {
			p.table.set("list_models", "{ }")
			p.used = true
		} else if g.every {
			p.table.say("The key serves all models of %s, whose list Sluice does not offer here: add those that are used to [[models]].", label(name))
		}
		for _, id := range slices.Sorted(maps.Keys(g.models)) {
			kind := cmp.Or(kindOf(id), "chat")
			if kind == "none" {
				b.d.notes[partModels].say("%s/%s seems to be a model for images or audio, which Sluice does not serve; left out.", label(name), label(id))
				continue
			}
			m := b.models.get(name + "/" + id)
			m.kinds = append(m.kinds, kind)
			m.add(target{provider: p.name, model: g.models[id], weight: g.weight, share: len(groups) > 1})
			m.key("retry", retry)
			p.used = true
		}
	}
}

// group is one or several keys of a provider that differ only in the credential.
type group struct {
	account
	n       *node
	secrets []string
	models  map[string]string // names of the models, and the upstream's
	every   bool              // all models
	weight  float64
}

// equal reports whether two groups differ only in the credential, which is a secret.
func (g *group) equal(o *group) bool {
	one, other := g.account, o.account
	one.about, other.about, one.secret, other.secret = nil, nil, "", ""
	return one == other && maps.Equal(g.models, o.models) && g.every == o.every && g.weight == o.weight && len(g.secrets)*len(o.secrets) > 0
}

// group translates a key of a provider. It returns nil if no plugin serves it. custom says that the provider has a name
// of the operator's choice.
func (b *bifrost) group(shared account, n, e *node, custom bool) *group {
	g := &group{account: shared, n: e, weight: 1}
	g.about = &table{}
	e.home = g.about
	old := n.peek("meta_config") // of early versions
	if old != nil {
		old.used = true
	}
	config := func(name string) *node {
		if c := e.get(name); c != nil {
			return c
		}
		return old
	}
	variable := g.key
	if variable == "" || custom {
		variable = variableFor(g.name, "_API_KEY")
	}
	g.address = b.d.value(n.peek("network_config").get("base_url"), variableFor(g.name, "_BASE_URL"), "url", g.about)
	for _, member := range []string{"ollama_key_config", "sgl_key_config", "vllm_key_config"} {
		g.address = cmp.Or(b.d.value(e.get(member).get("url"), variableFor(g.name, "_BASE_URL"), "url", g.about), g.address)
	}
	g.secret = b.d.value(e.get("value"), variable, "secret", g.about)
	switch g.preset {
	case "vertex":
		c := config("vertex_key_config")
		g.secret, g.project = "", b.d.value(c.get("project_id"), "", "text", g.about)
		g.location = cmp.Or(b.d.value(c.get("region"), "", "region", g.about), "global")
		g.credentials = b.d.file(c.get("auth_credentials"), false)
		g.vertexName = "gemini"
		if first := e.peek("models"); first != nil && len(first.nodes) > 0 && first.nodes[0].text != "*" {
			g.vertexName = first.nodes[0].text
		}
	case "bedrock":
		c := config("bedrock_key_config")
		g.region, g.access = b.d.value(c.get("region"), "", "region", g.about), b.d.value(c.get("access_key"), "AWS_ACCESS_KEY_ID", "secret", g.about)
		g.key2, g.session = b.d.value(c.get("secret_key"), "AWS_SECRET_ACCESS_KEY", "secret", g.about), b.d.value(c.get("session_token"), "AWS_SESSION_TOKEN", "secret", g.about)
		if g.access != "" {
			g.secret = ""
		}
	case "azure":
		c := config("azure_key_config")
		g.address = cmp.Or(b.d.value(c.get("endpoint"), "AZURE_ENDPOINT", "url", g.about), g.address)
		g.version = b.d.value(c.get("api_version"), "", "text", g.about)
		if g.secret == "" {
			g.about.say("There is no API key. Sluice does not obtain tokens of Microsoft Entra ID: create a key.")
			g.secret = b.d.use(variable, "secret", "a key of "+g.name)
		}
	case "openai", "", "vllm", "lmstudio":
		if g.address != "" {
			g.address = strings.TrimRight(g.address, "/") + "/v1" // which Bifrost appends itself
		}
	}
	if g.secret != "" {
		g.secrets = []string{quote(g.secret)}
	}
	if w, ok := e.number("weight", 0, maxWeight); ok {
		g.weight = w
	}
	b.served(g, old)
	if g.keys(b.d) == nil {
		return nil
	}
	return g
}

// served reads the models of a key.
func (b *bifrost) served(g *group, old *node) {
	g.models = map[string]string{}
	listed := g.n.get("models")
	for _, id := range listed.texts() {
		if id == "*" {
			g.every = true
		} else {
			g.models[id] = strings.TrimPrefix(id, "google/")
		}
	}
	if listed == nil || len(listed.nodes) == 0 {
		g.every = true
		if !b.all && listed != nil {
			g.about.about(listed, "is empty. Bifrost's version 2 then offers no model, and version 1 all of them; here it is all.")
		}
	}
	for _, name := range []string{"azure_key_config", "bedrock_key_config", "vertex_key_config", "", "meta_config"} {
		holder := g.n
		if name == "meta_config" {
			holder = old
		} else if name != "" {
			holder = g.n.get(name)
		}
		for _, member := range []string{"deployments", "aliases"} {
			for _, n := range holder.get(member).nodesOf() {
				n.used = true
				model := n.text
				if n.object {
					model = n.string("model_id")
				}
				if _, there := g.models[n.name]; there || g.every {
					g.models[n.name] = model
				}
			}
		}
	}
	if n := g.n.get("vllm_key_config").get("model_name"); n != nil {
		for id := range g.models {
			g.models[id] = n.text
		}
	}
	if g.preset == "azure" && len(g.models) > 0 {
		g.every = false // what is not deployed cannot be requested
	}
}
