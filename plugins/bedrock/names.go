package bedrock

import "github.com/sluice-gateway/sluice/plugins/internal/translate"

// nameRule is the rule for the names of tools and the IDs of calls.
var nameRule = translate.NameRule{Max: 64, Others: "-", Digit: true}

// validName reports whether the provider accepts s as a name or ID.
func validName(s []byte) bool { return nameRule.Accepts(s) }

// writeID writes the ID of a tool call.
func (t *translation) writeID(id []byte) {
	if validName(id) {
		t.w.Inside(id)
		return
	}
	t.scratch = nameRule.Append(t.scratch[:0], id, 0)
	t.w.Text(t.scratch)
}
