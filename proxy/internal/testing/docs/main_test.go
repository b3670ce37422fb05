// Package docs_test checks what the documents claim against the code.
package docs_test

import (
	"os"
	"testing"
)

// TestMain runs the tests in the folder of the examples.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../../../examples"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
