package importer

import (
	"fmt"
	"slices"
	"strings"
)

// governance translates keys, teams, budgets and limits.
func (b *bifrost) governance(g *node) {
	budgets, rates := byID(g.get("budgets")), byID(g.get("rate_limits"))
	bound := map[*node]bool{}
	b.groups(g, budgets, rates, bound)
	for _, n := range g.get("virtual_keys").items() {
		b.virtualKey(n, budgets, rates, bound)
	}
	for _, n := range g.get("model_configs").items() {
		n.get("id")
		id, provider := n.string("model_name"), n.string("provider")
		m := b.models.find(provider + "/" + id)
		if m == nil {
			m = b.models.find(id)
		}
		if scope := n.string("scope"); m == nil || scope != "" && scope != "global" {
			b.d.notes[partModels].about(n, "is for a model that is not above, or for one key; left out. Write limits and budgets in [[models]] or [[keys]].")
			markAll(n)
			continue
		}
		n.home = m.table
		limits, money := b.bounds(n, "model_config_id", budgets, rates, bound, m.table)
		m.key(limits.name, limits.value)
		m.key(money.name, money.value)
	}
	for _, n := range g.get("providers").items() {
		name := n.string("name")
		p := b.providers.named(b.offered[name])
		if p == nil {
			continue
		}
		n.home = p.table
		n.get("id")
		limits, money := b.bounds(n, "", budgets, rates, bound, p.table)
		if limits.value != "" {
			p.limits = limits.value
		}
		p.table.set("budgets", money.value)
	}
	for _, all := range []map[string]*node{budgets, rates} {
		for _, n := range all {
			if !bound[n] {
				n.used = false
				n.why = "belongs to nothing that was translated; left out."
			}
		}
	}
}

// byID returns the elements of a list by their ids.
func byID(list *node) map[string]*node {
	all := map[string]*node{}
	for _, n := range list.items() {
		if id := n.string("id"); id != "" {
			all[id] = n
		}
	}
	return all
}

// bounds returns the limits and the budgets of something that refers to them, or that budgets refer to with the member
// owner.
func (b *bifrost) bounds(n *node, owner string, budgets, rates map[string]*node, bound map[*node]bool, t *table) (limits, money entry) {
	if r := rates[n.string("rate_limit_id")]; r != nil {
		bound[r] = true
		var values [2]string
		for i, kind := range []string{"request", "token"} {
			every := r.string(kind + "_reset_duration")
			if values[i] = r.integer(kind+"_max_limit", 1, 1e9); values[i] != "" && every != "1m" && every != "60s" {
				values[i] = ""
				t.about(r.peek(kind+"_max_limit"), "is not per minute; Sluice's limits are requests_per_minute, tokens_per_minute and concurrent. Left out.")
			}
		}
		limits = entry{name: "limits", value: inline("requests_per_minute", values[0], "tokens_per_minute", values[1])}
	}
	ids := []string{n.string("budget_id")}
	ids = append(ids, n.get("budget_ids").texts()...)
	for id, o := range budgets {
		if owner != "" && o.peek(owner) != nil && o.peek(owner).text == n.string("id") {
			o.get(owner)
			ids = append(ids, id)
		}
	}
	var all []string
	add := func(o *node) {
		usd, ok := o.number("max_limit", 0.000001, 9e6)
		text, why := budget(usd, o.string("reset_duration"))
		switch {
		case ok && why != "":
			t.about(o.peek("reset_duration"), why)
		case ok:
			all = append(all, text)
			t.about(o, "a budget of a calendar period, and not of one that starts with the first request. Models without a price are free, as in Bifrost.")
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if o := budgets[id]; o != nil {
			bound[o] = true
			add(o)
		}
	}
	for _, o := range n.get("budgets").items() {
		o.get("id")
		add(o)
	}
	if all != nil {
		money = entry{name: "budgets", value: list(all)}
	}
	return limits, money
}

// unique returns a name of a key or a team that is not taken.
func (b *bifrost) unique(kind, name string) string {
	base := clean(name)
	out := base
	for i := 2; b.named[kind+out]; i++ {
		out = fmt.Sprintf("%s-%d", base, i)
	}
	b.named[kind+out] = true
	return out
}

// groups translates teams, and the customers to which keys belong directly.
func (b *bifrost) groups(g *node, budgets, rates map[string]*node, bound map[*node]bool) {
	direct := map[string]bool{}
	for _, k := range g.peek("virtual_keys").nodesOf() {
		for _, member := range []string{"team_id", "customer_id"} {
			if id := k.peek(member); id != nil && id.scalar {
				direct[id.text] = true
			}
		}
	}
	for _, group := range []struct{ list, owner string }{{"teams", "team_id"}, {"customers", "customer_id"}} {
		for _, n := range g.get(group.list).items() {
			id, name := n.string("id"), n.string("name")
			if !direct[id] {
				b.d.notes[partClients].about(n, "no virtual key of the file belongs to it, and teams have no groups of their own; left out.")
				markAll(n)
				continue
			}
			if name == "" {
				name = id
			}
			t := b.d.table(partClients, "[[teams]]")
			n.home = t
			b.teams[id] = b.unique("team ", name)
			t.set("name", quote(b.teams[id]))
			limits, money := b.bounds(n, group.owner, budgets, rates, bound, t)
			t.set(limits.name, limits.value)
			t.set(money.name, money.value)
		}
	}
}

// virtualKey translates a virtual key.
func (b *bifrost) virtualKey(n *node, budgets, rates map[string]*node, bound map[*node]bool) {
	id, name := n.string("id"), n.string("name")
	if name == "" {
		name = id
	}
	t := b.d.table(partClients, "[[keys]]")
	n.home = t
	name = b.unique("key ", name)
	t.set("name", quote(name))
	variable := variableFor(name, "")
	secret := b.d.value(n.get("value"), variable, "secret", t)
	if secret == "" {
		t.say("Bifrost has generated the key, which is not in the file: set %s to it.", variable)
		secret = b.d.use(variable, "secret", fmt.Sprintf("the virtual key %s, line %d", name, n.line))
	}
	t.set("secret", quote(secret))
	if active, set := n.bool("is_active"); set && !active {
		t.set("disabled", "true")
	}
	if expires := n.get("expires_at"); expires != nil && expires.scalar {
		t.set("expires", plain(expires.text))
	}
	for _, member := range []string{"team_id", "customer_id"} {
		if team := b.teams[n.string(member)]; team != "" {
			t.set("team", quote(team))
		}
	}
	b.allowed(n, t)
	limits, money := b.bounds(n, "virtual_key_id", budgets, rates, bound, t)
	t.set(limits.name, limits.value)
	t.set(money.name, money.value)
}

// allowed writes the models that a virtual key may use.
func (b *bifrost) allowed(n *node, t *table) {
	configs := n.get("provider_configs")
	var patterns []string
	for _, c := range configs.items() {
		provider := c.string("provider")
		if b.offered[provider] == "" {
			t.about(c, "is for a provider that was left out.")
			markAll(c)
			continue
		}
		models := c.get("allowed_models")
		if models == nil || len(models.nodes) == 0 {
			patterns = append(patterns, provider+"/*")
		}
		for _, m := range models.texts() {
			patterns = append(patterns, provider+"/"+strings.TrimPrefix(m, provider+"/"))
		}
	}
	switch {
	case len(patterns) > 0:
		t.set("models", list(quoted(patterns)))
	case configs == nil && b.all:
	default:
		t.say("The key may use no provider: models is empty.")
		t.set("models", "[]")
	}
}
