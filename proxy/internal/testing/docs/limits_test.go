package docs_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// TestGeneratedLimits generates docs/limits.md.
func TestGeneratedLimits(t *testing.T) {
	request := clientapi.Limits{}.WithDefaults()
	bytes := func(dir, name string) string { return formatBytes(readConstant(t, dir, name)) }
	number := func(dir, name string) string { return formatNumber(readConstant(t, dir, name)) }
	duration := func(dir, name string) string { return time.Duration(readConstant(t, dir, name)).String() }
	var b strings.Builder
	b.WriteString("# Limits\n\n" + generatedNote)
	b.WriteString("Limits that cannot be configured. Configurable limits, such as `max_body`, are in [configuration.md](configuration.md), and limits of plugin\n" +
		"calls in the [plugin ABI](../sdk/abi/README.md#limits-and-budgets).\n\n| limit | value |\n| --- | --- |\n")
	for _, l := range [][2]string{
		{"request head", bytes("proxy", "readBuffer")},
		{"header lines of a request", number("proxy/internal/endpoint", "maxHeaders")},
		{"URL of a request", bytes("proxy/internal/endpoint", "maxURI")},
		{"nesting of arrays and objects", formatNumber(int64(request.Depth))},
		{"values and member names of a request", formatNumber(int64(request.Nodes))},
		{"messages", formatNumber(int64(request.Messages))},
		{"tools", formatNumber(int64(request.Tools))},
		{"tool calls of a message", formatNumber(int64(request.ToolCalls))},
		{"stop sequences", formatNumber(int64(request.Stop))},
		{"entries of `logit_bias`", formatNumber(int64(request.LogitBias))},
		{"length of a client's `x-request-id`", number("proxy/internal/endpoint", "maxRequestID")},
		{"rest of a rejected request that is read before the connection is closed", bytes("proxy/internal/downstream", "maxRest") + ", or " + bytes("proxy/internal/downstream", "maxKnownRest") + " with a valid key"},
		{"gateways that a request may pass", number("proxy/internal/admission", "maxHops")},
		{"wait of a request for capacity, if its key is within its share of `max_requests`", duration("proxy/internal/admission", "maxWait")},
		{"non-streaming response of a provider", bytes("proxy/internal/exchange", "MaxDocument")},
		{"`retry-after` of a provider", duration("proxy/internal/upstream", "maxRetryAfter")},
		{"signed reasoning that is remembered for tool calls", bytes("proxy/internal/thinking", "DefaultMaxSize") + ", or a sixteenth of the memory"},
		{"remembered reasoning that is not used", duration("proxy/internal/thinking", "DefaultTTL")},
		{"responses and threads stored by providers of which the gateway knows who made them", number("proxy/internal/ownership", "MaxObjects") + ", for " + duration("proxy/internal/ownership", "TTL")},
		{"models of a provider's list", number("proxy/internal/routing/catalog", "maxListed")},
		{"use of a DNS result", duration("proxy/internal/upstream", "namesFresh")},
		{"use of an expired DNS result while the name server fails", duration("proxy/internal/upstream", "namesStale")},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", l[0], l[1])
	}
	b.WriteString("\nHTTP/1.1 cannot tell a response from one that nobody asked for, and that a provider sends on a reused connection after the next request was\n" +
		"sent: the client of that request receives it. What arrives earlier closes the connection.\n")
	checkGenerated(t, "docs/limits.md", b.String())
}

// readConstant returns the value of an integer constant of a package, exported or not.
func readConstant(t *testing.T, dir, name string) int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				for i, n := range s.Names {
					if n.Name != name || i >= len(s.Values) {
						continue
					}
					if v, exact := constant.Int64Val(evaluate(t, s.Values[i])); exact {
						return v
					}
				}
			}
		}
	}
	t.Fatalf("%s has no integer constant %s: update TestGeneratedLimits", dir, name)
	return 0
}

var units = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// evaluate evaluates a constant expression made of literals and units of package time.
func evaluate(t *testing.T, e ast.Expr) constant.Value {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.SelectorExpr:
		return constant.MakeInt64(int64(units[e.Sel.Name]))
	case *ast.BinaryExpr:
		x, y := evaluate(t, e.X), evaluate(t, e.Y)
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n))
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	t.Fatalf("cannot evaluate %T", e)
	return nil
}

// formatNumber groups digits by thousands.
func formatNumber(n int64) string {
	s := strconv.FormatInt(n, 10)
	for group := regexp.MustCompile(`(\d)(\d{3})(,|$)`); group.MatchString(s); {
		s = group.ReplaceAllString(s, "$1,$2$3")
	}
	return s
}

func formatBytes(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n>>10, 10) + " KiB"
}
