package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxDepth limits the nesting of tables and arrays, and thus every recursion over a tree.
const maxDepth = 32

// kind is the type of a node's value.
type kind uint8

const (
	kindBroken kind = iota // invalid, and already reported; counts as set, but has no value
	kindString
	kindBool
	kindInteger
	kindFloat
	kindDate // a date, a time or both
	kindArray
	kindTable
)

// description returns the words by which errors refer to a value of the kind.
func (k kind) description() string {
	return [...]string{"a broken value", "a string", "a boolean", "an integer", "a number", "a date", "an array", "a table"}[k]
}

// origin is how a table was defined, which decides what may be added to it.
type origin uint8

const (
	originHeader   origin = iota // [a]
	originImplicit               // the a of [a.b]
	originDotted                 // the a of a.b = 1
	originInline                 // { }
)

// node is a value with its position. For offsets, see source.
type node struct {
	kind   kind
	origin origin // how a table was defined
	tables bool   // the node is an array defined as [[name]]
	bool   bool
	offset int    // offset of the value; for a table with a header, of the header's last name
	text   string // a string after expansion, or another scalar as written
	number int64
	float  float64
	items  []*node  // elements of an array
	names  []member // entries of a table, in file order
	rare   *rare    // nil for most nodes, to keep them small: there may be a million
}

// rare holds the fields that few nodes need.
type rare struct {
	vars  []variable     // variables in a string
	date  any            // time.Time, toml.LocalDate, toml.LocalDateTime or toml.LocalTime
	index map[string]int // indexes into names, for a large table
}

// vars returns the variables in a string.
func (n *node) vars() []variable {
	if n.rare == nil {
		return nil
	}
	return n.rare.vars
}

// date returns the value of a date.
func (n *node) date() any {
	if n.rare == nil {
		return nil
	}
	return n.rare.date
}

// member is an entry of a table.
type member struct {
	name   string
	value  *node
	offset int32 // offset of the name
	known  bool  // the name has been looked up
}

// indexed is the number of keys above which a table has an index.
const indexed = 16

func (n *node) member(name string) *member {
	if n.rare != nil && n.rare.index != nil {
		if i, ok := n.rare.index[name]; ok {
			return &n.names[i]
		}
		return nil
	}
	for i := range n.names {
		if n.names[i].name == name {
			return &n.names[i]
		}
	}
	return nil
}

// slabs allocates nodes, and the entries of small tables, in batches, because there may be a million of them.
type slabs struct {
	nodes   []node
	members []member
}

const slabSize = 256

// node returns a new node.
func (s *slabs) node(n node) *node {
	if len(s.nodes) == 0 {
		s.nodes = make([]node, slabSize)
	}
	out := &s.nodes[0]
	s.nodes = s.nodes[1:]
	*out = n
	return out
}

// names returns an empty slice for the entries of a table.
func (s *slabs) names() []member {
	const few = 4
	if len(s.members) < few {
		s.members = make([]member, few*slabSize)
	}
	out := s.members[:0:few]
	s.members = s.members[few:]
	return out
}

func (d *document) add(n *node, name string, offset int, value *node) *node {
	if n.names == nil {
		n.names = d.names()
	}
	n.names = append(n.names, member{name: name, value: value, offset: int32(offset)})
	switch {
	case n.rare != nil && n.rare.index != nil:
		n.rare.index[name] = len(n.names) - 1
	case len(n.names) > indexed:
		n.rare = &rare{index: make(map[string]int, 2*indexed)}
		for i := range n.names {
			n.rare.index[n.names[i].name] = i
		}
	}
	return value
}

// document is a configuration being parsed, which consists of the main file and those that it includes, with the errors
// so far.
type document struct {
	file    string // the main file
	data    []byte // contents of the main file, for parse
	env     func(string) (string, bool)
	sources []*source
	source  *source  // the file that is being parsed
	files   []string // included files
	folders []string // folders that are searched for files to include
	errs    Errors
	unset   []unsetVariable

	pluginsOnly bool // Options.PluginsOnly

	warnings Errors
	free     []freeMember
	scalars  map[string]error // results of verifyScalar, by notation
	lookedUp func(keyPath)    // called for each member that the decoder looks up; nil except in tests
	parts    []unstable.Node  // buffer of keyParts
	interned map[string]string
	slabs
	p unstable.Parser
}

// position converts an offset to a file, a line and a column.
func (d *document) position(offset int) Position {
	s := d.sourceOf(offset)
	if s.lines == nil {
		s.lines = append(make([]int, 0, 1+bytes.Count(s.data, []byte{'\n'})), 0)
		for i, c := range s.data {
			if c == '\n' {
				s.lines = append(s.lines, i+1)
			}
		}
	}
	offset = min(max(offset-s.base, 0), len(s.data))
	line := sort.SearchInts(s.lines, offset+1)
	p := Position{Line: line, Column: 1 + utf8.RuneCount(s.data[s.lines[line-1]:offset])}
	if s.file != d.file {
		p.File = s.file
	}
	return p
}

func (d *document) fail(offset int, key, format string, args ...any) {
	d.errs = append(d.errs, newError(d.file, d.position(offset), key, fmt.Sprintf(format, args...)))
}

func (d *document) warn(offset int, key, format string, args ...any) {
	d.warnings = append(d.warnings, newError(d.file, d.position(offset), key, fmt.Sprintf(format, args...)))
}

func (d *document) sortedErrors() Errors { return d.errs.sorted() }

// parse builds the tree of the file. It returns nil after a syntax error. All duplicate keys and invalid scalars are
// reported, and left out of the tree.
func (d *document) parse() *node {
	d.begin(d.file, d.data)
	root, complete := d.read()
	d.reportUnset()
	if !complete {
		return nil
	}
	return root
}

// read builds the tree of the current source up to a syntax error.
func (d *document) read() (root *node, complete bool) {
	root = d.node(node{kind: kindTable})
	current, where := root, &keyPath{}
	d.p.Reset(d.source.data)
	for d.p.NextExpression() {
		e := d.p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			current, where = d.header(root, e)
		case unstable.KeyValue:
			d.keyValue(current, e, 1, where)
		}
	}
	if err := d.p.Error(); err != nil {
		d.syntax(err)
		return root, false
	}
	return root, true
}

// syntax reports a syntax error. Its message contains no values.
func (d *document) syntax(err error) {
	var pe *unstable.ParserError
	if !errors.As(err, &pe) {
		d.errs = append(d.errs, Error{File: d.file, Text: err.Error()})
		return
	}
	offset := cap(d.source.data) - cap(pe.Highlight)
	d.fail(d.source.base+offset, "", "%s%s", pe.Message, quotesHint(d.source.data, offset))
}

// verifyScalar checks the notation of a number or a boolean, which the parser does not check, by decoding it with the
// library. Results are cached, because few scalars differ.
func (d *document) verifyScalar(text string) error {
	if err, known := d.scalars[text]; known {
		return err
	}
	var v struct{ V any }
	err := toml.Unmarshal([]byte("V = "+text), &v)
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "toml: "))
	}
	if d.scalars == nil {
		d.scalars = make(map[string]error)
	}
	d.scalars[text] = err
	return err
}

// keyParts returns the parts of a dotted key, valid until the next call.
func (d *document) keyParts(e *unstable.Node) []unstable.Node {
	d.parts = d.parts[:0]
	for it := e.Key(); it.Next(); {
		d.parts = append(d.parts, *it.Node())
	}
	return d.parts
}

// maxInterned limits the number of interned names.
const maxInterned = 1024

// intern returns a name as a string. Since the same few names occur many times, it does not allocate most of them.
func (d *document) intern(name []byte) string {
	if s, ok := d.interned[string(name)]; ok {
		return s
	}
	s := string(name)
	if d.interned == nil {
		d.interned = make(map[string]string)
	}
	if len(d.interned) < maxInterned {
		d.interned[s] = s
	}
	return s
}

// offset converts a position in the current source to an offset in the document.
func (d *document) offset(r unstable.Range) int { return d.source.base + int(r.Offset) }

// header returns the table that a header opens. Keys that follow an invalid header are read into a separate table, so
// that they are still checked.
func (d *document) header(root *node, e *unstable.Node) (*node, *keyPath) {
	at, where := root, &keyPath{}
	parts := d.keyParts(e)
	if len(parts) > maxDepth {
		d.fail(d.offset(parts[maxDepth].Raw), "", "tables are nested more than %d levels deep", maxDepth)
		return d.node(node{kind: kindTable}), where
	}
	for i := range parts {
		name, offset := d.intern(parts[i].Data), d.offset(parts[i].Raw)
		step := where.child(name)
		where = &step
		m := at.member(name)
		if i == len(parts)-1 {
			return d.open(at, m, where, offset, e.Kind == unstable.ArrayTable)
		}
		switch {
		case m == nil:
			at = d.add(at, name, offset, d.node(node{kind: kindTable, origin: originImplicit, offset: offset}))
		case m.value.tables:
			last := len(m.value.items) - 1
			element := where.element(last)
			at, where = m.value.items[last], &element
		case m.value.kind == kindTable && m.value.origin != originInline:
			at = m.value
		default:
			d.failDuplicate(offset, where, m)
			return d.node(node{kind: kindTable}), where
		}
	}
	return at, where
}

// open creates the table, or the next table of the array, that a header's last name refers to.
func (d *document) open(at *node, m *member, where *keyPath, offset int, array bool) (*node, *keyPath) {
	fresh := d.node(node{kind: kindTable, offset: offset})
	switch {
	case m == nil && array:
		d.add(at, where.name, offset, d.node(node{kind: kindArray, tables: true, offset: offset, items: []*node{fresh}}))
		element := where.element(0)
		return fresh, &element
	case m == nil:
		return d.add(at, where.name, offset, fresh), where
	case array && m.value.tables:
		m.value.items = append(m.value.items, fresh)
		element := where.element(len(m.value.items) - 1)
		return fresh, &element
	case !array && m.value.kind == kindTable && m.value.origin == originImplicit:
		m.offset, m.value.offset, m.value.origin = int32(offset), offset, originHeader
		return m.value, where
	}
	d.failDuplicate(offset, where, m)
	return fresh, where
}

// failDuplicate reports a key that is defined for the second time.
func (d *document) failDuplicate(offset int, where *keyPath, first *member) {
	d.fail(offset, where.String(), "is already defined on line %d", d.position(int(first.offset)).Line)
}

// keyValue adds "a.b = value" to a table. depth is the nesting depth of the table.
func (d *document) keyValue(at *node, e *unstable.Node, depth int, where *keyPath) {
	parts := d.keyParts(e)
	if depth += len(parts); depth > maxDepth {
		d.fail(d.offset(parts[0].Raw), "", "tables are nested more than %d levels deep", maxDepth)
		return
	}
	for i := range parts {
		name, offset := d.intern(parts[i].Data), d.offset(parts[i].Raw)
		step := where.child(name)
		where = &step
		m := at.member(name)
		if i == len(parts)-1 {
			if m != nil {
				d.failDuplicate(offset, where, m)
			}
			start := offset + int(parts[i].Raw.Length)
			rest := d.source.data[start-d.source.base:]
			start += len(rest) - len(bytes.TrimLeft(rest, " \t="))
			value := d.value(e.Value(), start, depth, where)
			if m == nil {
				d.add(at, name, offset, value)
			}
			return
		}
		switch {
		case m == nil:
			at = d.add(at, name, offset, d.node(node{kind: kindTable, origin: originDotted, offset: offset}))
		case m.value.kind == kindTable && m.value.origin == originDotted:
			at = m.value
		default:
			d.failDuplicate(offset, where, m)
			return
		}
	}
}

// value converts a node of the parser. start is its approximate offset, used if the parser has none.
func (d *document) value(v *unstable.Node, start, depth int, where *keyPath) *node {
	n := d.node(node{offset: start})
	if v.Raw.Length > 0 {
		n.offset = d.offset(v.Raw)
	}
	if depth > maxDepth {
		d.fail(n.offset, "", "arrays are nested more than %d levels deep", maxDepth)
		return n
	}
	switch v.Kind {
	case unstable.Array:
		n.kind = kindArray
		for it := v.Children(); it.Next(); {
			element := where.element(len(n.items))
			n.items = append(n.items, d.value(it.Node(), n.offset, depth+1, &element))
		}
	case unstable.InlineTable:
		n.kind, n.origin = kindTable, originInline
		for it := v.Children(); it.Next(); {
			d.keyValue(n, it.Node(), depth, where)
		}
	case unstable.String:
		n.kind, n.text = kindString, string(v.Data)
		d.expand(n, d.p.Raw(v.Raw), where)
		if name := foreignVariable(n.text); name != "" {
			d.warn(n.offset, where.String(), "is used as it is; a variable is written ${%s}", name)
		}
	default:
		d.scalar(n, v, where)
	}
	return n
}

// scalar parses a number, a boolean or a date. The parser has only checked that its characters are allowed.
func (d *document) scalar(n *node, v *unstable.Node, where *keyPath) {
	n.text = string(v.Data)
	bare := strings.ReplaceAll(n.text, "_", "")
	what := "number"
	var err error
	switch v.Kind {
	case unstable.Bool:
		n.kind, n.bool = kindBool, n.text == "true"
	case unstable.Integer:
		n.kind = kindInteger
		n.number, err = strconv.ParseInt(bare, 0, 64)
		n.float = float64(n.number)
	case unstable.Float:
		n.kind = kindFloat
		n.float, err = strconv.ParseFloat(strings.TrimLeft(bare, "+"), 64)
		if strings.HasSuffix(bare, "nan") {
			n.float, err = math.NaN(), nil
		}
	default:
		n.kind, what = kindDate, "date or time"
		var date any
		date, err = parseDate(n.text)
		n.rare = &rare{date: date}
	}
	switch {
	case err != nil:
		n.kind = kindBroken
		d.fail(n.offset, where.String(), "%q is not a valid %s", n.text, what)
	case n.kind != kindDate:
		if err := d.verifyScalar(n.text); err != nil {
			n.kind = kindBroken
			d.fail(n.offset, where.String(), "%v", err)
		}
	}
}

// parseDate parses a date, a time or both with the library, which supports every notation of TOML.
func parseDate(text string) (any, error) {
	var v struct{ Date any }
	if strings.Trim(text, "0123456789-+:.TtZz ") != "" {
		return nil, errors.New("not a date")
	}
	err := toml.Unmarshal([]byte("Date = "+text), &v)
	return v.Date, err
}

// keyPath is the path to a key. The zero keyPath is the root. A path refers to its parent, which must not be modified.
type keyPath struct {
	up    *keyPath
	name  string
	index int // index of an array element if name is ""
}

func (p *keyPath) child(name string) keyPath { return keyPath{up: p, name: name, index: -1} }

func (p *keyPath) element(i int) keyPath { return keyPath{up: p, index: i} }

// String returns a path such as "models[0].targets[1].provider". A name that is not a bare key is quoted.
func (p *keyPath) String() string {
	var steps []keyPath
	for at := p; at.up != nil; at = at.up {
		steps = append(steps, *at)
	}
	slices.Reverse(steps)
	var b strings.Builder
	for _, s := range steps {
		switch {
		case s.name == "" && s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		if bareKey(s.name) {
			b.WriteString(s.name)
		} else {
			b.WriteString(strconv.Quote(s.name))
		}
	}
	return b.String()
}

func bareKey(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
