package rescue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

func TestRecover(t *testing.T) {
	run := func(f func() error) (err error) {
		defer rescue.Into(&err)
		return f()
	}
	plain := errors.New("plain")
	if err := run(func() error { return plain }); err != plain {
		t.Errorf("an error became %v", err)
	}
	if err := run(func() error { return nil }); err != nil {
		t.Errorf("nothing became %v", err)
	}
	err := fmt.Errorf("around it: %w", run(func() error { panic("a secret") }))
	e, ok := errors.AsType[*rescue.Error](err)
	if !ok || e.Type != "string" || !strings.Contains(string(e.Stack), "rescue_test.go") || err.Error() != "around it: panic of type string" {
		t.Errorf("a panic became %v, with\n%s", err, e.Stack)
	}
	if !e.First() || e.First() {
		t.Error("it is not counted once")
	}
}

func TestRecoverHandles(t *testing.T) {
	run := func(f func()) (e *rescue.Error) {
		defer rescue.Recover(func(p *rescue.Error) { e = p })
		f()
		return nil
	}
	if e := run(func() {}); e != nil {
		t.Errorf("no panic became %v", e)
	}
	if e := run(func() { panic(1) }); e == nil || e.Type != "int" || !strings.Contains(string(e.Stack), "rescue_test.go") {
		t.Errorf("a panic became %+v", e)
	}
}
