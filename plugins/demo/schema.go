package main

import "github.com/sluice-gateway/sluice/sdk/json"

// maxDepth is how deep the generator goes into a schema. What lies deeper is written as null.
const maxDepth = 8

// example writes a value that fits a JSON schema: of an object the required members, of an enumeration the first value,
// else the smallest value of the type. It follows no references and looks at no patterns.
func example(w *json.Writer, schema json.Value, depth int) {
	if depth > maxDepth {
		w.Null()
		return
	}
	for _, given := range [...]string{"const", "default"} {
		if v := schema.Get(given); v.Exists() {
			w.Raw(v)
			return
		}
	}
	for _, list := range [...]string{"enum", "examples"} {
		if v := element(schema.Get(list), 0); v.Exists() {
			w.Raw(v)
			return
		}
	}
	for _, list := range [...]string{"anyOf", "oneOf", "allOf"} {
		if v := element(schema.Get(list), 0); v.Exists() {
			example(w, v, depth+1)
			return
		}
	}
	switch string(typeOf(schema)) {
	case "string":
		w.String(exampleString(schema))
	case "integer", "number":
		exampleNumber(w, schema)
	case "boolean":
		w.Bool(true)
	case "array":
		exampleArray(w, schema, depth)
	case "null":
		w.Null()
	default:
		exampleObject(w, schema, depth)
	}
}

// typeOf is the type that a schema names, or the first one that it names.
func typeOf(schema json.Value) []byte {
	t := schema.Get("type")
	if t.Kind() == json.Array {
		t = element(t, 0)
	}
	return t.Text()
}

// element is an element of an array, nil if there is none.
func element(array json.Value, index int) json.Value {
	var r json.Reader
	r.Reset(array)
	for a := r.Array(); a.Next(); index-- {
		if index == 0 {
			return r.Raw()
		}
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

func exampleNumber(w *json.Writer, schema json.Value) {
	if v := schema.Get("minimum"); v.Kind() == json.Number {
		w.Raw(v)
		return
	}
	if n, ok := schema.Get("exclusiveMinimum").Int(); ok {
		w.Int(n + 1)
		return
	}
	if n, ok := schema.Get("maximum").Int(); ok && n < 1 {
		w.Int(n)
		return
	}
	w.Int(1)
}

func exampleArray(w *json.Writer, schema json.Value, depth int) {
	const most = 16
	n, _ := schema.Get("minItems").Int()
	w.Array()
	for range min(n, most) {
		example(w, schema.Get("items"), depth+1)
	}
	w.EndArray()
}

func exampleObject(w *json.Writer, schema json.Value, depth int) {
	properties := schema.Get("properties")
	w.Object()
	var r json.Reader
	r.Reset(schema.Get("required"))
	for a := r.Array(); a.Next(); {
		if name := r.Text(); name != nil {
			w.NameText(name)
			example(w, properties.Get(string(name)), depth+1)
		}
	}
	w.EndObject()
}
