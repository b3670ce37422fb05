package clientapi_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// unfiltered reads the table in docs/filters.md of the members whose strings no filter sees.
func unfiltered(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/filters.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| members that are not read |")
	if !ok {
		t.Fatal("docs/filters.md has no table of the members that are not read")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(table, "\n")[2:] {
		cell, reason, _ := strings.Cut(strings.Trim(row, "| "), " | ")
		cell = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cell, "") // conditions: see inTable
		if len(reason) < 10 {
			t.Errorf("no reason: %s", row)
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// inTable reports whether docs/filters.md names a string, by the path of the member that contains it and by the type of
// the object that has this member.
func inTable(table, path []string, typ jsondoc.Value) bool {
	if slices.Contains(path, "logprobs") || slices.Contains(path, "headers") {
		return true // with everything in them
	}
	if len(path) == 0 || !slices.Contains(table, path[len(path)-1]) {
		return false
	}
	switch path[len(path)-1] {
	case "data":
		return !typ.Is("text")
	case "result":
		return typ.Is("image_generation_call")
	case "required", "propertyOrdering", "property_ordering":
		return slices.ContainsFunc(path, func(name string) bool {
			return strings.Contains(strings.ToLower(name), "schema") || name == "parameters" || name == "guided_json"
		})
	}
	return true
}

// TestFiltersSeeEveryText checks that filters see every string of recorded and of generated requests, in all APIs, but
// for those that docs/filters.md names, and that every row of its table is needed.
func TestFiltersSeeEveryText(t *testing.T) {
	table := unfiltered(t)
	var bodies [][2]string
	for _, api := range []string{"openai", "messages", "responses"} {
		files, err := filepath.Glob("../" + api + "/testdata/requests/*.json")
		if err != nil || len(files) == 0 {
			t.Fatal(api, err)
		}
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, [2]string{strings.Replace(api, "openai", "chat", 1), string(body)})
		}
	}
	for _, r := range shapedRequests {
		bodies = append(bodies, [2]string{r.api, r.body})
	}
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := shapedRequests[random.IntN(len(shapedRequests))]
		bodies = append(bodies, [2]string{r.api, addStrings(random, r.body)})
	}
	needed := map[string]bool{}
	for _, b := range bodies {
		var d jsondoc.Doc
		if err := d.Parse([]byte(b[1]), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		if err := clientapi.Texts(&d, b[0], func(x clientapi.Text) error {
			if seen[x.Value.Offset()] {
				t.Errorf("%s: %s is seen twice", b[0], clientapi.Path(x.Value))
			}
			seen[x.Value.Offset()] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var check func(v jsondoc.Value, path []string, typ jsondoc.Value)
		check = func(v jsondoc.Value, path []string, typ jsondoc.Value) {
			if name := v.Name(); name.Exists() {
				path = append(slices.Clone(path), name.Text())
			}
			if v.Kind() == jsondoc.Object {
				typ = v.Get("type")
			}
			if v.Kind() == jsondoc.String && !seen[v.Offset()] {
				if !inTable(table, path, typ) {
					t.Errorf("%s: no filter sees %s = %q", b[0], clientapi.Path(v), v.Text())
				}
				for _, name := range path {
					needed[name] = true
				}
			}
			for m := v.First(); m.Exists(); m = m.Next() {
				check(m, path, typ)
			}
		}
		check(d.Root(), nil, jsondoc.Value{})
	}
	for _, name := range table {
		if !needed[name] {
			t.Errorf("docs/filters.md names %q, which filters see", name)
		}
	}
}

// TestFiltersSeeNoReferences checks that filters read none of the members that refer to what a provider stores.
func TestFiltersSeeNoReferences(t *testing.T) {
	found := 0
	for _, name := range strings.Fields(clientapi.KnownNames) {
		d := document(t, `{"tools":[{"`+name+`":"x_1"}]}`)
		if !clientapi.FindReferences(d, clientapi.Responses).Object.Exists() {
			continue
		}
		found++
		if err := clientapi.Texts(d, "responses", func(x clientapi.Text) error {
			t.Errorf("filters see %s", clientapi.Path(x.Value))
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if found < 10 {
		t.Errorf("%d references", found)
	}
}

// addStrings adds members with strings, lists and objects to random objects of a request, with names of the APIs and
// unknown ones.
func addStrings(random *rand.Rand, body string) string {
	var document any
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		panic(err)
	}
	names := append(strings.Fields(clientapi.KnownNames), "unknown", "enum", "const", "default", "examples", "required", "propertyOrdering", "pattern", "$ref", "anyOf", "items",
		"server_url", "file_ids", "thought_signature", "cached_content", "file_uri", "property_ordering", "encrypted_stdout")
	var value func(depth int) any
	value = func(depth int) any {
		switch n := random.IntN(6); {
		case depth > 2 || n < 3:
			return "marker"
		case n < 4:
			return []any{"marker", value(depth + 1)}
		default:
			o := map[string]any{}
			for range 1 + random.IntN(3) {
				o[names[random.IntN(len(names))]] = value(depth + 1)
			}
			if random.IntN(3) == 0 {
				types := []string{"text", "thinking", "reasoning", "tool_use", "function_call", "search_result", "image_generation_call", "object", "document"}
				o["type"] = types[random.IntN(len(types))]
			}
			return o
		}
	}
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(func(yield func(string) bool) {
				for name := range v {
					if !yield(name) {
						return
					}
				}
			}) {
				add(v[name])
			}
			for range 12 {
				name := names[random.IntN(len(names))]
				if _, taken := v[name]; !taken {
					v[name] = value(0)
				}
			}
		case []any:
			for _, e := range v {
				add(e)
			}
		}
	}
	add(document)
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return string(text)
}
