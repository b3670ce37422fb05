package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	reloadPoll    = 100 * time.Millisecond // interval between requests for the outcome of a reload
	maxStatusBody = 64 << 20               // bytes read of a status
)

func newReloadCommand(o *options) *cobra.Command {
	var pid int
	var base string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration of a running gateway",
		Long: "Send SIGHUP to a running gateway and wait until it has reloaded its configuration. If the reload fails, the gateway\n" +
			"keeps the previous configuration, the errors are printed, and the exit code is 1. The outcome is read from the address\n" +
			"in [admin]. In a systemd unit, as ExecReload, the command needs no --pid.",
		Example: "  sluice reload --pid $(pidof sluice)\n  sluice reload --pid $(pidof sluice) --config /etc/sluice/gateway.toml",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if pid <= 0 {
				return newUsageError(c, "which process? set --pid, or $MAINPID as systemd does")
			}
			address, err := o.healthURL(c, base, "/status")
			if err != nil {
				return err
			}
			return reloadAndWait(c.Context(), pid, address, timeout)
		},
	}
	mainPID, _ := strconv.Atoi(os.Getenv("MAINPID"))
	c.Flags().IntVar(&pid, "pid", mainPID, "process `ID` of the gateway, or $MAINPID")
	c.Flags().Lookup("pid").DefValue = "0"
	c.Flags().StringVar(&base, "url", "", "admin `address`, http://host:port; overrides the configuration")
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "`duration` to wait for the outcome")
	return c
}

// reloadOutcome is the part of the gateway's status that describes its reloads.
type reloadOutcome struct {
	Config struct {
		Reloads int64  `json:"reloads"`
		Failed  int64  `json:"reloads_failed"`
		Error   string `json:"reload_error"`
	} `json:"config"`
}

// reloadAndWait makes a gateway reload, and returns the errors if that fails.
func reloadAndWait(ctx context.Context, pid int, address string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before, err := readOutcome(ctx, address, timeout)
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
			return fmt.Errorf("the reload did not finish within %s; see the gateway's log for its outcome", timeout)
		case <-poll.C:
		}
		now, err := readOutcome(ctx, address, timeout)
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

// readOutcome reads the outcome of reloads from the gateway's status. timeout is the timeout of ctx, for error texts.
func readOutcome(ctx context.Context, address string, timeout time.Duration) (*reloadOutcome, error) {
	status, body, err := getAdmin(ctx, address, maxStatusBody, timeout)
	if err != nil {
		return nil, err
	}
	var outcome reloadOutcome
	if err := json.Unmarshal(body, &outcome); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("%s returned %d, not a status: is it the gateway's admin address?", address, status)
	}
	return &outcome, nil
}
