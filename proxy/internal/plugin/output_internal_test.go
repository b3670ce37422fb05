package plugin

import (
	"fmt"
	"strings"
	"testing"
)

// TestFailureMessage writes the output of several language runtimes, in pieces of different sizes.
func TestFailureMessage(t *testing.T) {
	for _, c := range []struct{ name, output, want string }{
		{"Go", "starting\npanic: runtime error: index out of range [5] with length 3 [recovered]\n\npanic: boom\n\ngoroutine 1 [running]:\nruntime.gopanic({0x1, 0x2})\n\t/go/src/runtime/panic.go:770 +0x1\nexample.com/plugins/echo.(*echo).Event(0x1c00, {0x1, 0x2})\n\texample.com/plugins/echo/event.go:42 +0x2c\nmain.main()\n\tmain.go:9 +0x1\nexit status 2\n",
			"panic: boom at echo.(*echo).Event (event.go:42)"},
		{"Go, fatal", "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\nmain.wait(...)\n\t./main.go:3\n", "fatal error: all goroutines are asleep - deadlock! at main.wait (main.go:3)"},
		{"TinyGo", "panic: runtime error at 0x00001234: index out of range\n", "panic: runtime error at 0x00001234: index out of range"},
		{"Rust", "\nthread '<unnamed>' panicked at src/lib.rs:10:5:\nindex out of bounds: the len is 3 but the index is 5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n", "panic: index out of bounds: the len is 3 but the index is 5 at src/lib.rs:10:5"},
		{"Rust before 1.73", "thread '<unnamed>' panicked at 'index out of bounds: the len is 3, but', src/lib.rs:10:5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n", "panic: index out of bounds: the len is 3, but at src/lib.rs:10:5"},
		{"AssemblyScript", "panic: Index out of range at ~lib/array.ts:114:42\n", "panic: Index out of range at ~lib/array.ts:114:42"},
		{"C", "Assertion failed: n < 3 (event.c: on_event: 42)\n", "Assertion failed: n < 3 (event.c: on_event: 42)"},
		{"lines", "one\ntwo\n\n", "two"},
		{"no newline", "one\ntwo", "two"},
		{"nothing", "", ""},
		{"a long line", strings.Repeat("x", 5000), strings.Repeat("x", 1024)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(c.output) + 1} {
				var o guestOutput
				o.reset(true)
				for rest := []byte(c.output); len(rest) > 0; {
					n := min(size, len(rest))
					o.write(2, rest[:n])
					rest = rest[n:]
				}
				o.finish()
				if got := o.message(); got != c.want {
					t.Errorf("in pieces of %d: %q, want %q", size, got, c.want)
				}
			}
		})
	}
}

func TestKeptOutputIsBounded(t *testing.T) {
	for _, line := range []string{"some line of output\n", strings.Repeat("x", 900) + "\n"} {
		var o guestOutput
		o.reset(true)
		written := 0
		for range 10_000 {
			o.write(1, []byte(line))
			written++
		}
		o.write(2, []byte("the last line"))
		o.finish()
		if len(o.text) > maxKeptOutput || len(o.kept) > maxKeptLines || len(o.kept) < 8 || len(o.kept)+o.dropped != written+1 {
			t.Errorf("kept %d bytes in %d lines, dropped %d of %d lines", len(o.text), len(o.kept), o.dropped, written+1)
		}
		var kept []string
		from := 0
		for _, l := range o.kept {
			kept = append(kept, fmt.Sprintf("%d %s", l.level, o.text[from:l.end]))
			from = l.end
		}
		whole := "1 " + strings.TrimSuffix(line, "\n")
		if last := len(kept) - 1; kept[0] != whole || kept[last-1] != whole || kept[last] != "3 the last line" {
			t.Errorf("kept %q", kept)
		}
	}
}
