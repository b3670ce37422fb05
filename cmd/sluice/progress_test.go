package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{out: &out}
		quick, slow, slower := p.startCompiling("quick"), p.startCompiling("slow"), p.startCompiling("slower, with it")
		<-time.After(progressDelay - time.Millisecond)
		quick()
		<-time.After(1300*time.Millisecond - progressDelay + time.Millisecond)
		synctest.Wait()
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "Compiling plugin slow …\n") || !strings.Contains(got, "Compiling plugins slower, with it …\n") {
			t.Errorf("while compiling:\n%s", got)
		}
		out.Reset()
		slow()
		<-time.After(time.Second)
		slower()
		if got := out.String(); got != "Compiled plugin slow in 1.3s\nCompiled plugins slower, with it in 2.3s\n" {
			t.Errorf("after compiling:\n%s", got)
		}
	})
}
