package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// reloadPoll is how often the outcome of a reload is asked for.
const reloadPoll = 100 * time.Millisecond

func newReloadCommand(o *options) *cobra.Command {
	var pid int
	var base string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration of a running gateway",
		Long: "Send SIGHUP to a running gateway and wait until it has reloaded its configuration. If the reload fails, the gateway\n" +
			"keeps the previous configuration, the errors are printed, and the exit code is 1. The outcome is read from the address\n" +
			"in [admin].",
		Example: "  sluice reload --pid $(pidof sluice)\n  ExecReload=/usr/local/bin/sluice reload --config /etc/sluice/gateway.toml",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if pid <= 0 {
				return newUsageError(c, "which process? set --pid, or $MAINPID as systemd does")
			}
			address, err := o.healthURL(c, base, "/status")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			return reloadAndWait(ctx, pid, address)
		},
	}
	mainPID, _ := strconv.Atoi(os.Getenv("MAINPID"))
	c.Flags().IntVar(&pid, "pid", mainPID, "process `ID` of the gateway, or $MAINPID")
	c.Flags().Lookup("pid").DefValue = "0"
	c.Flags().StringVar(&base, "url", "", "admin `address`, http://host:port; overrides the configuration")
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "`duration` to wait for the outcome")
	return c
}

// reloadOutcome is the part of the gateway's status that tells how its reloads went.
type reloadOutcome struct {
	Config struct {
		Reloads int64  `json:"reloads"`
		Failed  int64  `json:"reloads_failed"`
		Error   string `json:"reload_error"`
	} `json:"config"`
}

// reloadAndWait makes a gateway reload, and returns the errors if that fails.
func reloadAndWait(ctx context.Context, pid int, address string) error {
	before, err := readOutcome(ctx, address)
	if err != nil {
		return err
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Signal(syscall.SIGHUP)
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	poll := time.NewTicker(reloadPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.New("timed out waiting for the reload; the log has its outcome")
		case <-poll.C:
		}
		now, err := readOutcome(ctx, address)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil:
		case now.Config.Failed > before.Config.Failed:
			return fmt.Errorf("reload failed; keeping the previous configuration\n%s", strings.TrimSpace(now.Config.Error))
		case now.Config.Reloads > before.Config.Reloads:
			return nil
		}
	}
}

func readOutcome(ctx context.Context, address string) (*reloadOutcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no response from %s: %w", address, simplifyNetError(err, 0))
	}
	defer resp.Body.Close()
	var outcome reloadOutcome
	if err := json.NewDecoder(resp.Body).Decode(&outcome); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %d, not a status: is it the gateway's admin address?", address, resp.StatusCode)
	}
	return &outcome, nil
}
