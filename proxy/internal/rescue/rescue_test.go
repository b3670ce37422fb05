package rescue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

func TestInto(t *testing.T) {
	run := func(f func() error) (err error) {
		defer rescue.Into(&err)
		return f()
	}
	plain := errors.New("plain")
	if err := run(func() error { return plain }); err != plain {
		t.Errorf("got %v, want the function's own error", err)
	}
	if err := run(func() error { return nil }); err != nil {
		t.Errorf("got %v without an error or a panic", err)
	}
	err := fmt.Errorf("wrapped: %w", run(func() error { panic("a secret") }))
	e, ok := errors.AsType[*rescue.Error](err)
	if !ok || e.Type != "string" || !strings.Contains(string(e.Stack), "rescue_test.go") || err.Error() != "wrapped: panic of type string" {
		t.Errorf("panic: got %v, with stack\n%s", err, e.Stack)
	}
	if !e.First() || e.First() {
		t.Error("First must return true once and then false")
	}
}

func TestRecover(t *testing.T) {
	run := func(f func()) (e *rescue.Error) {
		defer rescue.Recover(func(p *rescue.Error) { e = p })
		f()
		return nil
	}
	if e := run(func() {}); e != nil {
		t.Errorf("handle was called with %v without a panic", e)
	}
	if e := run(func() { panic(1) }); e == nil || e.Type != "int" || !strings.Contains(string(e.Stack), "rescue_test.go") {
		t.Errorf("panic: handle was called with %+v", e)
	}
}
