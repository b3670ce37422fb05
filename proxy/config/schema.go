package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// schema describes the options of a plugin, in the subset of JSON Schema that sdk/abi/README.md defines. Other keywords
// are ignored.
type schema struct {
	Type                 schemaTypes        `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties additional         `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Enum                 []any              `json:"enum"`
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
	MinLength            int                `json:"minLength"`
	MinItems             int                `json:"minItems"`
	Pattern              schemaPattern      `json:"pattern"`
	Required             []string           `json:"required"`
	Default              any                `json:"default"`
	Description          string             `json:"description"`
	Defs                 map[string]*schema `json:"$defs"`
}

// schemaPattern is a regular expression that a string has to match somewhere.
type schemaPattern struct{ *regexp.Regexp }

// UnmarshalJSON reads an expression of RE2.
func (p *schemaPattern) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		p.Regexp, err = regexp.Compile(text)
	}
	return err
}

// check checks what the schema says of itself: each default is a valid value, and each required option is described.
func (s *schema) check(path string) error {
	if s.Default != nil {
		if reason := s.rejects(s.Default); reason != "" {
			return fmt.Errorf("%s: default: %s", path, reason)
		}
	}
	for _, name := range s.Required {
		switch p := s.Properties[name]; {
		case p == nil && s.AdditionalProperties.none:
			return fmt.Errorf("%s: required option %s is not in properties", path, name)
		case p != nil && p.Default != nil:
			return fmt.Errorf("%s.%s: required, although it has a default", path, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if err := s.Properties[name].check(strings.TrimPrefix(path+"."+name, ".")); err != nil {
			return err
		}
	}
	return nil
}

// rejects returns why a value that was decoded from JSON does not match the schema's own keywords, "" if it does.
func (s *schema) rejects(value any) string {
	kind := kindTable
	switch v := value.(type) {
	case string:
		kind = kindString
		if s.Pattern.Regexp != nil && !s.Pattern.MatchString(v) {
			return fmt.Sprintf("%q does not match the pattern %s", v, s.Pattern)
		}
		if utf8.RuneCountInString(v) < s.MinLength {
			return fmt.Sprintf("%q has less than %d characters", v, s.MinLength)
		}
	case bool:
		kind = kindBool
	case float64:
		if kind = kindFloat; v == math.Trunc(v) {
			kind = kindInteger
		}
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			return fmt.Sprintf("%v is out of range", v)
		}
	case []any:
		kind = kindArray
	}
	switch {
	case len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(t string) bool { return hasType(kind, t) }):
		return "is " + kind.description()
	case len(s.Enum) > 0 && (kind == kindString || kind == kindBool || kind == kindInteger || kind == kindFloat) && !slices.Contains(s.Enum, value):
		return fmt.Sprintf("%v is not in enum", value)
	}
	return ""
}

// schemaTypes are the types that a value may have. If it is empty, any type is allowed.
type schemaTypes []string

// UnmarshalJSON reads one type, or an array of them.
func (t *schemaTypes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = schemaTypes{one}
		return nil
	}
	var many []string
	err := json.Unmarshal(data, &many)
	*t = many
	return err
}

// additional says which keys an object may have besides its properties: none, or any with values that match a schema.
// The zero value allows any keys and values.
type additional struct {
	none   bool
	schema *schema
}

// UnmarshalJSON reads a boolean or a schema.
func (a *additional) UnmarshalJSON(data []byte) error {
	var allowed bool
	if json.Unmarshal(data, &allowed) == nil {
		a.none = !allowed
		return nil
	}
	return json.Unmarshal(data, &a.schema)
}

func parseSchema(data []byte) (*schema, error) {
	s := new(schema)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	if len(s.Type) > 0 && !slices.Equal(s.Type, schemaTypes{"object"}) {
		return nil, errors.New("options are an object")
	}
	return s, s.check("")
}

// CheckOptionsSchema checks the JSON Schema of a plugin's options.
func CheckOptionsSchema(data []byte) error {
	_, err := parseSchema(data)
	return err
}

// targetDefinition names the definition, in a router's schema, of the target options that the router reads.
const targetDefinition = "target"

// optionTable is a table of options in the file, to be checked once the plugins are known.
type optionTable struct {
	n       *node
	path    keyPath
	plugin  string
	skip    []string // keys that are not options
	target  bool     // the options of a target, which router plugins may read as well
	routers []string // router plugins of the target's model
}

// optionSet is the options of one use of a plugin, from all tables that set some.
type optionSet struct {
	offset int // of the table of the use
	path   keyPath
	plugin string
	names  []string
}

// requireLater records the options of a use of a plugin in a table, so that checkOptions finds missing ones.
func (l *loader) requireLater(t *table, plugin string, all object) {
	if plugin == "" || l.o.OptionsSchema == nil {
		return
	}
	use := optionSet{offset: t.offset(nil), path: t.path.child("options"), plugin: plugin}
	for _, f := range all {
		use.names = append(use.names, f.name)
	}
	l.optionSets = append(l.optionSets, use)
}

// checkLater records a table of options for checkOptions.
func (l *loader) checkLater(t *table, name, plugin string, target bool) {
	if n := t.lookUp(name); n != nil && n.kind == kindTable && plugin != "" && l.o.OptionsSchema != nil {
		l.optionTables = append(l.optionTables, optionTable{n: n, path: t.path.child(name), plugin: plugin, target: target})
	}
}

// checkOptions checks the options of plugins, providers, targets and the router against the schemas of the plugins. A
// plugin without a schema checks its options itself, when it is loaded.
func (l *loader) checkOptions() {
	if l.o.OptionsSchema == nil {
		return
	}
	known := map[string]*schema{}
	find := func(plugin string) *schema {
		s, there := known[plugin]
		if i, declared := l.plugins[plugin]; !there && declared {
			s = l.schemaOf(&l.cfg.Plugins[i])
			known[plugin] = s
		}
		return s
	}
	for _, t := range l.optionTables {
		s := find(t.plugin)
		c := optionCheck{d: l.d, plugin: t.plugin, skip: t.skip}
		if t.skip != nil && (s == nil || !s.AdditionalProperties.none) {
			c.misplaced(t.n, s, &t.path)
		}
		if s == nil {
			continue
		}
		for _, name := range t.routers {
			switch router := find(name); {
			case name == "":
			case router == nil:
				c.others = true // the router may read any options, since it has no schema
			case router.Defs[targetDefinition] != nil:
				c.also = append(c.also, router.Defs[targetDefinition])
			}
		}
		c.object(t.n, s, &t.path, true)
	}
	for _, use := range l.optionSets {
		if s := find(use.plugin); s != nil {
			c := optionCheck{d: l.d, plugin: use.plugin}
			c.required(use.offset, s, &use.path, func(name string) bool { return slices.Contains(use.names, name) })
		}
	}
}

// required reports the required options that an object lacks.
func (c *optionCheck) required(offset int, s *schema, where *keyPath, has func(name string) bool) {
	for _, name := range s.Required {
		if has(name) {
			continue
		}
		text, path := "", where.child(name)
		if p := s.Properties[name]; p != nil && p.Description != "" {
			text = ": " + p.Description
		}
		c.fail(offset, &path, "is missing, and the plugin %s requires it%s", c.plugin, text)
	}
}

// schemaOf returns the schema of a plugin, or nil if it has none.
func (l *loader) schemaOf(p *Plugin) *schema {
	data := l.o.OptionsSchema(l.cfg, p)
	if data == nil {
		return nil
	}
	s, err := parseSchema(data)
	if err != nil {
		l.d.errs = append(l.d.errs, newError(l.d.file, p.Pos, "plugins."+p.Name, fmt.Sprintf("the module's options schema is invalid: %v", err)))
		return nil
	}
	return s
}

// optionCheck checks options against a schema.
type optionCheck struct {
	d      *document
	plugin string
	skip   []string  // keys of the outermost table that are not options
	also   []*schema // schemas of further keys of the outermost table
	others bool      // the outermost table may have keys that are in no schema
}

func (c *optionCheck) fail(offset int, where *keyPath, format string, args ...any) {
	c.d.fail(offset, where.String(), format, args...)
}

// misplaced reports sub-tables in [router] that belong to another table. [router] mixes keys of the configuration with
// settings of the plugin, so if the plugin accepts any settings, a misplaced table would silently have no effect.
func (c *optionCheck) misplaced(n *node, s *schema, where *keyPath) {
	for i := range n.names {
		m := &n.names[i]
		switch {
		case slices.Contains(c.skip, m.name) || !subtables()[m.name] || m.value.kind != kindTable && m.value.kind != kindArray:
		case s == nil:
			path := where.child(m.name)
			c.fail(int(m.offset), &path, "is a key of other tables, and the plugin %s does not declare such an option%s", c.plugin, c.hint(m.name, new(schema), where))
		case s.Properties[m.name] == nil:
			path := where.child(m.name)
			c.fail(int(m.offset), &path, "is a key of other tables, and the plugin %s has no such option%s", c.plugin, c.hint(m.name, s, where))
		}
	}
}

// subtables returns the names of the sub-tables of tables other than [router].
var subtables = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool)
	for _, s := range reference {
		path := strings.TrimSuffix(s.Path, "[]")
		if at := strings.LastIndexByte(path, '.'); at > 0 && path[:at] != "router" && (s.Type == TypeTable || s.Type == TypeTables) {
			names[path[at+1:]] = true
		}
	}
	delete(names, "NAME")
	return names
})

func (c *optionCheck) object(n *node, s *schema, where *keyPath, outermost bool) {
	if !outermost { // the outermost options may be in several tables; see optionSet
		c.required(n.offset, s, where, func(name string) bool {
			return slices.ContainsFunc(n.names, func(m member) bool { return m.name == name })
		})
	}
	for i := range n.names {
		m := &n.names[i]
		if outermost && slices.Contains(c.skip, m.name) {
			continue
		}
		path := where.child(m.name)
		p := s.Properties[m.name]
		for i := 0; p == nil && outermost && i < len(c.also); i++ {
			p = c.also[i].Properties[m.name]
		}
		switch {
		case p != nil:
			c.value(m.value, p, &path)
		case s.AdditionalProperties.schema != nil:
			c.value(m.value, s.AdditionalProperties.schema, &path)
		case s.AdditionalProperties.none && !(outermost && c.others):
			c.fail(int(m.offset), &path, "the plugin %s has no such option%s", c.plugin, c.hint(m.name, s, where))
		}
	}
}

// hint returns the text to append to an error about an unknown option: the option that was probably meant, or where the
// key belongs.
func (c *optionCheck) hint(name string, s *schema, where *keyPath) string {
	if hint := hints[where.pattern()][keySeparators.Replace(strings.ToLower(name))]; strings.Contains(hint, " ") {
		return "; " + hint
	}
	known := slices.Sorted(maps.Keys(s.Properties))
	if where.pattern() == "router" {
		known = append(known, routerKeys...)
	}
	return suggest(name, known)
}

func (c *optionCheck) value(n *node, s *schema, where *keyPath) {
	if n.kind == kindBroken {
		return
	}
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(t string) bool { return hasType(n.kind, t) }) {
		var names []string
		for _, t := range s.Type {
			names = append(names, typeName(t))
		}
		c.fail(n.offset, where, "must be %s, not %s", alternatives(names), n.kind.description())
		return
	}
	if len(s.Enum) > 0 {
		c.enum(n, s.Enum, where)
	}
	switch n.kind {
	case kindTable:
		c.object(n, s, where, false)
	case kindArray:
		switch {
		case len(n.items) >= s.MinItems:
		case s.MinItems == 1:
			c.fail(n.offset, where, "must not be empty")
		default:
			c.fail(n.offset, where, "must have at least %d elements", s.MinItems)
		}
		for i, e := range n.items {
			if s.Items != nil {
				element := where.element(i)
				c.value(e, s.Items, &element)
			}
		}
	case kindString:
		if p := s.Pattern.Regexp; p != nil && !p.MatchString(n.text) {
			c.fail(n.offset, where, "%s is invalid: want a match of %s", show(n), p)
			return
		}
		switch {
		case utf8.RuneCountInString(n.text) >= s.MinLength:
		case s.MinLength == 1:
			c.fail(n.offset, where, "must not be empty")
		default:
			c.fail(n.offset, where, "must have at least %d characters", s.MinLength)
		}
	case kindInteger, kindFloat:
		if s.Minimum != nil && !(n.float >= *s.Minimum) {
			c.fail(n.offset, where, "must be at least %v", *s.Minimum)
		}
		if s.Maximum != nil && !(n.float <= *s.Maximum) {
			c.fail(n.offset, where, "must be at most %v", *s.Maximum)
		}
	}
}

func (c *optionCheck) enum(n *node, values []any, where *keyPath) {
	var texts, words []string
	for _, v := range values {
		switch v := v.(type) {
		case string:
			if n.kind == kindString && n.text == v {
				return
			}
			texts, words = append(texts, strconv.Quote(v)), append(words, v)
		case float64:
			if (n.kind == kindInteger || n.kind == kindFloat) && n.float == v {
				return
			}
			texts = append(texts, strconv.FormatFloat(v, 'g', -1, 64))
		case bool:
			if n.kind == kindBool && n.bool == v {
				return
			}
			texts = append(texts, strconv.FormatBool(v))
		}
	}
	if len(texts) == 0 {
		return // the enum has only values that cannot be compared here
	}
	shown := n.text
	if n.kind == kindString {
		shown = show(n)
	}
	c.fail(n.offset, where, "%s is invalid: want %s%s", shown, alternatives(texts), suggest(n.text, words))
}

// hasType reports whether a value has a type of JSON Schema. A date counts as a string, because plugins get it as one.
func hasType(k kind, t string) bool {
	switch t {
	case "string":
		return k == kindString || k == kindDate
	case "boolean":
		return k == kindBool
	case "integer":
		return k == kindInteger
	case "number":
		return k == kindInteger || k == kindFloat
	case "array":
		return k == kindArray
	case "object":
		return k == kindTable
	}
	return t != "null" // TOML has no null; types that are unknown here accept any value
}

// typeName returns how errors refer to a type of JSON Schema.
func typeName(t string) string {
	switch t {
	case "object":
		return "a table"
	case "array", "integer":
		return "an " + t
	}
	return "a " + t
}
