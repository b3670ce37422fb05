package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Limits of the values in a file, so that aliases cannot multiply its members without end.
const (
	maxNodes = 50_000
	maxDepth = 64
)

// node is a value of the file, with what has become of it. Values that are read are marked as used; the others get a
// comment.
type node struct {
	name   string // of a member; "" for an element of a list
	path   string // such as "model_list[2].litellm_params.rpm"
	kind   string // the path without indexes, and with * for names that the operator chose
	line   int
	scalar bool
	object bool
	text   string // of a scalar
	nodes  []*node
	used   bool
	why    string // why a value was not used, if the notes do not say it
	up     *node
	home   *table // for comments on this value and those below it
}

func (n *node) add(name string, line int) *node {
	c := &node{name: name, line: line, up: n}
	switch {
	case n.object && n.path == "":
		c.path, c.kind = label(name), name
	case n.object && n.kind == "providers":
		c.path, c.kind = n.path+"."+label(name), n.kind+".*"
	case n.object:
		c.path, c.kind = n.path+"."+label(name), n.kind+"."+name
	default:
		c.path, c.kind = fmt.Sprintf("%s[%d]", n.path, len(n.nodes)), n.kind+"[]"
	}
	n.nodes = append(n.nodes, c)
	return c
}

// label returns a name for a comment, quoted if it has unusual characters.
func label(name string) string {
	plain := func(r rune) bool { return r > ' ' && r < 0x7f && r != '"' }
	if name != "" && len(name) <= 80 && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	if len(name) > 80 {
		name = strings.ToValidUTF8(name[:80], "") + "…"
	}
	return strconv.QuoteToASCII(name)
}

// readYAML reads a YAML file.
func readYAML(data []byte) (*node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		return nil, yamlError(err)
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	root, left := &node{used: true}, maxNodes
	if len(doc.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	return root, root.fillYAML(doc.Content[0], &left, 0)
}

// yamlError returns a syntax error without the text of the file, which may be a credential.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if i := strings.IndexAny(text, "\n`'\""); i >= 0 {
		text = text[:i] + "…"
	}
	return errors.New(text)
}

func (n *node) fillYAML(y *yaml.Node, left *int, depth int) error {
	if *left--; *left < 0 || depth > maxDepth {
		return fmt.Errorf("line %d: too many or too deeply nested values", y.Line)
	}
	if n.line == 0 {
		n.line = y.Line
	}
	switch y.Kind {
	case yaml.AliasNode:
		return n.fillYAML(y.Alias, left, depth+1)
	case yaml.MappingNode:
		n.object = true
		for i := 0; i+1 < len(y.Content); i += 2 {
			k, v := y.Content[i], y.Content[i+1]
			if k.ShortTag() == "!!merge" {
				own := n.nodes // which override those that are merged
				n.nodes = nil
				if err := n.fillYAML(v, left, depth+1); err != nil {
					return err
				}
				n.object, n.scalar, n.nodes = true, false, append(n.nodes, own...)
				continue
			}
			if err := n.add(k.Value, k.Line).fillYAML(v, left, depth+1); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for _, v := range y.Content {
			if err := n.add("", v.Line).fillYAML(v, left, depth+1); err != nil {
				return err
			}
		}
	default:
		n.scalar = true
		if y.ShortTag() != "!!null" {
			n.text = y.Value
		}
	}
	return nil
}

// surrogate matches the escape of half a character, which YAML does not have.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// readJSON reads a JSON file. JSON is YAML, whose parser knows the lines.
func readJSON(data []byte) (*node, error) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		line := 1
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			line += bytes.Count(data[:min(int(e.Offset), len(data))], []byte("\n"))
		}
		return nil, fmt.Errorf("line %d: not valid JSON", line) // the cause may quote a credential
	}
	return readYAML(surrogate.ReplaceAll(data, []byte(`\ufffd`)))
}

// peek returns the value of a member, or nil. The last member of a name counts.
func (n *node) peek(name string) *node {
	if n == nil || !n.object {
		return nil
	}
	for i := len(n.nodes) - 1; i >= 0; i-- {
		if n.nodes[i].name == name {
			return n.nodes[i]
		}
	}
	return nil
}

// get returns the value of a member and marks it as used. It returns nil for null and for "".
func (n *node) get(name string) *node {
	c := n.peek(name)
	if c == nil {
		return nil
	}
	c.used = true
	if c.scalar && c.text == "" {
		return nil
	}
	return c
}

// refuse marks a value as not used after all.
func (n *node) refuse(why string) {
	n.used, n.why = false, why
}

// string returns the text of a member.
func (n *node) string(name string) string {
	c := n.get(name)
	switch {
	case c == nil:
		return ""
	case !c.scalar:
		c.refuse("is not a text, and was left out")
		return ""
	}
	return c.text
}

func (n *node) bool(name string) (value, set bool) {
	text := strings.ToLower(n.string(name))
	return text == "true", text != ""
}

// items marks the elements of a list as used and returns them.
func (n *node) items() []*node {
	if n == nil || n.object {
		return nil
	}
	for _, c := range n.nodes {
		c.used = true
	}
	return n.nodes
}

// texts returns the elements of a list of texts; a single text counts as a list.
func (n *node) texts() (all []string) {
	if n != nil && n.scalar {
		return []string{n.text}
	}
	for _, c := range n.items() {
		if c.scalar && c.text != "" {
			all = append(all, c.text)
		} else {
			c.refuse("is not a text, and was left out")
		}
	}
	return all
}

// number returns a member that is a number within a range, or 0 and false.
func (n *node) number(name string, low, high float64) (float64, bool) {
	c := n.get(name)
	if c == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(c.text, "_", ""), 64)
	switch {
	case !c.scalar || err != nil:
		c.refuse("is not a number; write it by hand, since a variable cannot be used for a number")
	case math.IsNaN(v) || v < low || v > high:
		c.refuse(fmt.Sprintf("is outside the range from %s to %s that is possible here, and was left out", decimal(low), decimal(high)))
	default:
		return v, true
	}
	return 0, false
}

// integer returns a member that is a number within a range as an integer, or "".
func (n *node) integer(name string, low, high float64) string {
	v, ok := n.number(name, low, high)
	if !ok {
		return ""
	}
	return strconv.FormatInt(int64(v), 10)
}

// attemptsOf returns the attempts for a member with a number of retries, or "".
func attemptsOf(n *node, name string) string {
	v, ok := n.number(name, 0, 1000)
	if !ok {
		return ""
	}
	return strconv.Itoa(min(int(v)+1, 10))
}

// nodesOf returns the members or elements; n may be nil.
func (n *node) nodesOf() []*node {
	if n == nil {
		return nil
	}
	return n.nodes
}

// markAll marks all values as used, for a member that was left out with a comment.
func markAll(n *node) {
	n.used = true
	for _, c := range n.nodes {
		markAll(c)
	}
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// duration returns a member that is a number as a duration of the configuration, or "". scale is what one is
// in milliseconds.
func (n *node) duration(name string, scale, low, high float64) string {
	v, ok := n.number(name, low/scale, high/scale)
	if !ok {
		return ""
	}
	ms := int64(math.Round(v * scale))
	if ms%1000 == 0 {
		return quote(fmt.Sprintf("%ds", ms/1000))
	}
	return quote(fmt.Sprintf("%dms", ms))
}
