// Package clientapitest helps to test the packages of client APIs.
package clientapitest

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// promptMembers are the first members of a chat completions request, in order. A fixed order matters because prompt
// caches match prefixes.
var promptMembers = []string{"model", "tools", "messages", "tool_choice", "parallel_tool_calls"}

// PromptOrder returns a chat completions request with its members in the order in which the gateway writes them: first
// promptMembers, then all others in their original order.
func PromptOrder(t testing.TB, request string) string {
	t.Helper()
	var doc jsondoc.Doc
	if err := doc.Parse([]byte(request), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	var first [5]string
	var rest []string
	for v := doc.Root().First(); v.Exists(); v = v.Next() {
		name := string(v.Name().Inside())
		member := `"` + name + `":` + string(v.Raw())
		if n := slices.Index(promptMembers, name); n >= 0 {
			first[n] = member
		} else {
			rest = append(rest, member)
		}
	}
	all := slices.DeleteFunc(append(first[:], rest...), func(m string) bool { return m == "" })
	return "{" + strings.Join(all, ",") + "}"
}
