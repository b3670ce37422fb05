package config_test

import "testing"

func TestVariablesInStrings(t *testing.T) {
	vars := []string{"A=alpha", "EMPTY=", "WITH=${A} $$"}
	tests := []struct{ in, want string }{
		{`"${A}"`, "alpha"},
		{`"x${A}y${A}z"`, "xalphayalphaz"},
		{`'${A}'`, "alpha"},
		{`"""
${A}"""`, "alpha"},
		{`"${EMPTY}"`, ""},
		{`"${EMPTY:-other}"`, "other"},
		{`"${NONE:-other}"`, "other"},
		{`"${NONE:-}"`, ""},
		{`"${A:-other}"`, "alpha"},
		{`"${NONE:-http://x:1/$$}"`, "http://x:1/$"},
		{`"$$"`, "$"},
		{`"$${A}"`, "${A}"},
		{`"$A $ a$"`, "$A $ a$"},
		{`"$$$$"`, "$$"},
		{`"\u0024{A}"`, "alpha"},
		// The value of a variable is not expanded.
		{`"${WITH}"`, "${A} $$"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			c := mustParse(t, "[[models]]\nid = \"m\"\ntargets = [{ provider = \"d\" }]\ndisplay_name = "+tt.in+"\n[providers.d]\nplugin = \"demo\"\noptions = { v = "+tt.in+" }", vars...)
			want := `{"v":` + quote(tt.want) + `}`
			if got := string(c.Providers[0].Options); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	t.Run("neither in names nor in comments", func(t *testing.T) {
		c := mustParse(t, "# ${NONE}\n[providers.d]\nplugin = \"demo\" # ${NONE}\noptions = { \"${NONE}\" = 1 }")
		if got := string(c.Providers[0].Options); got != `{"${NONE}":1}` {
			t.Errorf("got %s", got)
		}
	})
}
