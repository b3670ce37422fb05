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
		quick, slow, slower := p.startLoading([]string{"quick"}), p.startLoading([]string{"slow"}), p.startLoading([]string{"slower", "with it"})
		<-time.After(progressDelay - time.Millisecond)
		quick()
		<-time.After(1300*time.Millisecond - progressDelay + time.Millisecond)
		synctest.Wait()
		if said := out.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "Loading plugin slow (the first time it is") || !strings.Contains(said, "Loading plugins slower, with it (the first time they are") {
			t.Errorf("while loading:\n%s", said)
		}
		out.Reset()
		slow()
		<-time.After(time.Second)
		slower()
		if said := out.String(); said != "Loaded plugin slow in 1.3s\nLoaded plugins slower, with it in 2.3s\n" {
			t.Errorf("after loading:\n%s", said)
		}
	})
}
