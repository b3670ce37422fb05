package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressTellsOfWhatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{out: &out}
		quick, slow, slower := p.loading("quick"), p.loading("slow"), p.loading("slower")
		<-time.After(noticeable - time.Millisecond)
		quick()
		<-time.After(1300*time.Millisecond - noticeable + time.Millisecond)
		synctest.Wait()
		if said := out.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "Loading plugin slow (") || !strings.Contains(said, "Loading plugin slower (") {
			t.Errorf("while they are loaded it says\n%s", said)
		}
		out.Reset()
		slow()
		<-time.After(time.Second)
		slower()
		if said := out.String(); said != "Plugin slow took 1.3s\nPlugin slower took 2.3s\n" {
			t.Errorf("at the end it says\n%s", said)
		}
	})
}
