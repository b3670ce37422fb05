package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/examples/plugins/upstream"
)

func newPluginUpstreamCommand() *cobra.Command {
	listen := ""
	c := &cobra.Command{
		Use:   "upstream",
		Short: "Serve the API that new provider plugins translate",
		Long: "Serve the small API that new provider plugins translate, so that they can be tried without a provider. POST /say accepts\n" +
			"a chat completions request with \"turns\" instead of \"messages\", and streams the last turn back word by word.",
		Example: "  sluice plugin upstream\n  curl http://127.0.0.1:9090/say -d '{\"turns\":[{\"content\":\"Good morning\"}]}'",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "Serving http://%s/say; press Ctrl-C to stop.\n", ln.Addr())
			s := http.Server{Handler: upstream.Handler{}, ReadHeaderTimeout: 10 * time.Second}
			ended := make(chan os.Signal, 1)
			signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
			go func() {
				<-ended
				s.Close()
			}()
			if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:9090", "`address` to serve")
	return c
}
