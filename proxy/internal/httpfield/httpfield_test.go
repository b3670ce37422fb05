package httpfield_test

import (
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// TestValidityAgreesWithHTTPGuts compares the functions with httpguts for every byte.
func TestValidityAgreesWithHTTPGuts(t *testing.T) {
	for c := range 256 {
		s := "a" + string([]byte{byte(c)}) + "b"
		if got, want := httpfield.ValidName(s), httpguts.ValidHeaderFieldName(s); got != want {
			t.Errorf("ValidName(%q) = %t, want %t", s, got, want)
		}
		if got, want := httpfield.ValidValue([]byte(s)), httpguts.ValidHeaderFieldValue(s); got != want {
			t.Errorf("ValidValue(%q) = %t, want %t", s, got, want)
		}
		if got, want := httpfield.ASCII(s), c < 0x80; got != want {
			t.Errorf("ASCII(%q) = %t, want %t", s, got, want)
		}
	}
	if httpfield.ValidName("") || !httpfield.ValidValue("") {
		t.Error("an empty name must be invalid, and an empty value valid")
	}
}

func TestEqualFold(t *testing.T) {
	for _, tt := range []struct {
		text, lower string
		want        bool
	}{
		{"", "", true},
		{"Keep-Alive", "keep-alive", true},
		{"KEEP-ALIVE", "keep-alive", true},
		{"keep-alivf", "keep-alive", false},
		{"keep", "keep-alive", false},
		{"\u212aeep-alive"[:10], "keep-alive", false},
		{"[", "{", false},
	} {
		if got := httpfield.EqualFold([]byte(tt.text), tt.lower); got != tt.want {
			t.Errorf("EqualFold(%q, %q) = %t, want %t", tt.text, tt.lower, got, tt.want)
		}
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	want := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, string(all[:128])) + string(all[128:])
	if got := string(httpfield.AppendLower(nil, all)); got != want {
		t.Errorf("AppendLower: got %q, want %q", got, want)
	}
}
