package engine

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A process that opens a module while another one publishes it finds either nothing or the whole module, and never
// removes it.
func TestOpenDuringPublish(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest many times")
	}
	c, err := openDiskCache(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		key := sha256.Sum256(fmt.Append(nil, n))
		dir, err := c.begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "code"), []byte("machine code"), 0o600); err != nil {
			t.Fatal(err)
		}
		published := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					c.open(key)
					select {
					case <-published:
						return
					default:
					}
				}
			})
		}
		if err := c.publish(dir, key, &entry{stub: []byte("stub")}); err != nil {
			t.Fatal(err)
		}
		close(published)
		readers.Wait()
		if _, _, miss := c.open(key); miss != nil {
			t.Fatalf("module %d is missing after it was published: %v", n, miss)
		}
	}
}
