package demo

import "github.com/sluice-gateway/sluice/sdk/json"

// Limits of a document. Values beyond them become null or are omitted. They keep a call within the limits for output
// and fuel of a short request, for any schema.
const (
	maxDepth      = 8
	maxDocument   = 4 << 10 // bytes, of all choices together
	maxScanned    = 8 << 20 // bytes of the schema, counted each time they are parsed
	scansPerValue = 10      // how many times writeValue parses a schema, approximately
)

// generator writes values that match a JSON schema: the required members of an object, the first value of an
// enumeration, otherwise a simple value of the type. It ignores references and patterns.
type generator struct {
	json.Writer
	limit   int // maximum length of the document
	scanned int // parsed bytes of the schema
}

func (g *generator) reset(choices int64) {
	g.Writer.Reset()
	g.limit, g.scanned = maxDocument/int(choices), 0
}

// fits reports whether n more bytes may be written.
func (g *generator) fits(n int) bool { return len(g.Buf)+n <= g.limit && g.scanned <= maxScanned }

// writeSchemaValue writes a value that is a part of the schema, or null if it does not fit.
func (g *generator) writeSchemaValue(v json.Value) {
	if g.fits(len(v)) {
		g.Raw(v)
	} else {
		g.Null()
	}
}

// writeValue writes a value that matches a schema.
func (g *generator) writeValue(schema json.Value, depth int) {
	if g.scanned += scansPerValue * len(schema); depth > maxDepth || !g.fits(0) {
		g.Null()
		return
	}
	for _, keyword := range [...]string{"const", "default"} {
		if v := schema.Get(keyword); v.Exists() {
			g.writeSchemaValue(v)
			return
		}
	}
	for _, keyword := range [...]string{"enum", "examples"} {
		if v := first(schema.Get(keyword)); v.Exists() {
			g.writeSchemaValue(v)
			return
		}
	}
	for _, keyword := range [...]string{"anyOf", "oneOf", "allOf"} {
		if v := first(schema.Get(keyword)); v.Exists() {
			g.writeValue(v, depth+1)
			return
		}
	}
	switch string(schemaType(schema)) {
	case "string":
		g.String(exampleString(schema))
	case "integer", "number":
		g.writeNumber(schema)
	case "boolean":
		g.Bool(true)
	case "array":
		g.writeArray(schema, depth)
	case "null":
		g.Null()
	default:
		g.writeObject(schema, depth)
	}
}

// schemaType returns the type of a schema, or the first one if there are several.
func schemaType(schema json.Value) []byte {
	t := schema.Get("type")
	if t.Kind() == json.Array {
		t = first(t)
	}
	return t.Text()
}

// first returns the first element of an array, nil if there is none.
func first(array json.Value) json.Value {
	var r json.Reader
	r.Reset(array)
	for a := r.Array(); a.Next(); {
		return r.Raw()
	}
	return nil
}

func exampleString(schema json.Value) string {
	switch string(schema.Get("format").Text()) {
	case "date":
		return "2025-01-31"
	case "time":
		return "12:00:00Z"
	case "date-time":
		return "2025-01-31T12:00:00Z"
	case "email":
		return "demo@example.com"
	case "uri":
		return "https://example.com/"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	}
	return "example"
}

func (g *generator) writeNumber(schema json.Value) {
	if v := schema.Get("minimum"); v.Kind() == json.Number {
		g.writeSchemaValue(v)
		return
	}
	if n, ok := schema.Get("exclusiveMinimum").Int(); ok {
		g.Int(n + 1)
		return
	}
	if n, ok := schema.Get("maximum").Int(); ok && n < 1 {
		g.Int(n)
		return
	}
	g.Int(1)
}

func (g *generator) writeArray(schema json.Value, depth int) {
	n, _ := schema.Get("minItems").Int()
	g.Array()
	for ; n > 0 && g.fits(0); n-- {
		g.writeValue(schema.Get("items"), depth+1)
	}
	g.EndArray()
}

func (g *generator) writeObject(schema json.Value, depth int) {
	properties := schema.Get("properties")
	g.Object()
	var r json.Reader
	r.Reset(schema.Get("required"))
	for a := r.Array(); a.Next() && g.fits(0); {
		if name := r.Text(); name != nil && g.fits(len(name)) {
			g.scanned += len(properties)
			g.NameText(name)
			g.writeValue(properties.Get(string(name)), depth+1)
		}
	}
	g.EndObject()
}
