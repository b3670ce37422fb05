package importer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// seeds are files with members of all kinds, also with wrong types.
var seeds = []string{
	`{"model_list":[{"model_name":"a","litellm_params":{"model":"azure/d","api_base":"https://u:p@h.example/?k=canary-1","api_key":"canary-secret-1","rpm":"os.environ/RPM","timeout":-1,"weight":0.5,"order":2}},{"model_name":"a","litellm_params":{"model":"bedrock/converse/eu-west-1/m","aws_access_key_id":"canary-secret-2","aws_secret_access_key":"canary-secret-3"}}]}`,
	"model_list:\n- &x\n  model_name: b\n  litellm_params: {model: vertex_ai/gemini-x, vertex_credentials: '{\"private_key\":\"canary-secret-4\"}', vertex_project: p}\n- <<: *x\n  model_name: c d\nrouter_settings: {fallbacks: [{b: [c d, z]}], model_group_alias: {k: {model: b, hidden: true}}, redis_url: redis://:canary-secret-5@h}\nunknown: {x: 1}\n",
	"model_list: {a: 1}\nlitellm_settings: [1]\ngeneral_settings: x\nrouter_settings: {fallbacks: 1, model_group_alias: 3, num_retries: [2]}\ncredential_list: [{credential_name: n, credential_values: {api_key: canary-secret-6}}]\n",
	`{"version":1,"providers":{"openai":{"keys":[{"value":{"value":"canary-secret-7"},"models":["gpt"],"aliases":{"gpt":{"model_id":"x"}},"weight":0.3},{"value":"env.K","models":["gpt"],"weight":0.7}],"network_config":{"base_url":"http://h","max_retries":3}},"mine":{"custom_provider_config":{"base_provider_type":"openai","is_key_less":true}}}}`,
	`{"governance":{"budgets":[{"id":"b","max_limit":10,"reset_duration":"1d","team_id":"t"},{"id":"c","max_limit":1,"reset_duration":"1Y"}],"rate_limits":[{"id":"r","token_max_limit":5,"token_reset_duration":"1m"}],"teams":[{"id":"t","name":"T \u00e9"}],"virtual_keys":[{"id":"v","name":"v","value":"canary-secret-8","team_id":"t","rate_limit_id":"r","budget_id":"c","expires_at":"never","is_active":false}]},"providers":{"ollama":{"keys":[{"value":"","models":["*"],"ollama_key_config":{"url":"env.O"}}]}}}`,
	`{"providers":{"azure":{"keys":[{"azure_key_config":{"endpoint":"env.E","deployments":{"a":"b"}},"blacklisted_models":[]}]},"x":1},"governance":[],"client":{"max_request_body_size_mb":"1"},"\n\"":"canary"}`,
}

// FuzzTranslate checks that every file that can be read becomes a valid configuration in which each member that was not
// translated has its comment, and no credential.
func FuzzTranslate(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range []struct {
			name      string
			read      func([]byte) (*node, error)
			translate func(*document, *node)
			prefix    string
			notes     map[string]note
		}{{"LiteLLM", readYAML, translateLiteLLM, "os.environ/", litellmNotes()}, {"Bifrost", readJSON, translateBifrost, "env.", bifrostNotes()}} {
			root, err := p.read([]byte(text))
			if err != nil || !root.object {
				continue
			}
			d := newDocument(p.name, p.prefix, root)
			p.translate(d, root)
			r, err := d.result(root, p.notes)
			if err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			options := config.Options{Env: d.sample, Bundled: bundled, ReadFile: sampleFile}
			if _, err := config.Parse("gateway.toml", []byte(r.Text), options); err != nil {
				t.Errorf("%s: %v\nin\n%s", p.name, err, r.Text)
			}
			checkMembers(t, root, strings.Join(strings.Fields(strings.ReplaceAll(r.Text, "\n#", " ")), " "))
			checkSecrets(t, root, r.Text)
		}
	})
}

// checkMembers checks that each member that was not used has a comment.
func checkMembers(t *testing.T, n *node, text string) {
	for _, c := range n.nodes {
		if c.used {
			checkMembers(t, c, text)
			continue
		}
		want := fmt.Sprintf("%s (line %d)", label(c.name), c.line)
		if !n.object {
			want = fmt.Sprintf("] (line %d)", c.line)
		}
		if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no comment on %s, line %d, in\n%s", c.path, c.line, text)
		}
	}
}

var secretName = regexp.MustCompile(`(^|_)(key|secret|password|token)(_id)?$|^value$|credentials$`)

// checkSecrets checks that no credential is in the text, unless the file has the same text elsewhere.
func checkSecrets(t *testing.T, root *node, text string) {
	var secrets, others []string
	var walk func(n *node)
	walk = func(n *node) {
		others = append(others, n.name)
		if n.scalar && secretName.MatchString(n.name) && len(n.text) >= 8 {
			secrets = append(secrets, n.text)
		} else {
			others = append(others, n.text)
		}
		for _, c := range n.nodes {
			walk(c)
		}
	}
	walk(root)
	rest := strings.Join(others, "\n")
	for _, s := range secrets {
		if _, isVariable := strings.CutPrefix(s, "os.environ/"); isVariable || strings.HasPrefix(s, "env.") || strings.HasSuffix(s, ".json") || strings.Contains(rest, s) {
			continue
		}
		if strings.Contains(text, s) && len(strings.TrimSpace(s)) >= 8 && strings.Contains(s, "canary") {
			t.Errorf("the credential %q is in\n%s", s, text)
		}
	}
}

// TestNotes checks that each note has a text and is for a path that can occur.
func TestNotes(t *testing.T) {
	for name, notes := range map[string]map[string]note{"LiteLLM": litellmNotes(), "Bifrost": bifrostNotes()} {
		if len(notes) < 100 {
			t.Errorf("%s has only %d notes", name, len(notes))
		}
		for path, n := range notes {
			if !strings.HasSuffix(n.text, ".") || strings.Contains(path, " ") || strings.Contains(strings.TrimSuffix(strings.ReplaceAll(path, "providers.*.", ""), "*"), "*") {
				t.Errorf("%s: %s: %q", name, path, n.text)
			}
		}
	}
}
