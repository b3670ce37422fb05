// Command compile reads a module from standard input and compiles it, with the cache in the directory of its argument.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

func main() {
	if err := compile(context.Background(), os.Args[1]); err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
}

func compile(ctx context.Context, dir string) error {
	wasm, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	e, err := engine.New(engine.Options{CacheDir: dir, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	if _, err := e.Compile(ctx, "guest", wasm); err != nil {
		return err
	}
	return e.Close()
}
