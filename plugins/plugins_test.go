package plugins_test

import (
	"os"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
)

func TestNamesAreTheFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "bundle" {
			folders = append(folders, e.Name())
		}
	}
	if got := plugins.Names(); !slices.Equal(got, folders) {
		t.Errorf("names %v, folders %v", got, folders)
	}
}
