package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newKey generates a key.
func newKey(t testing.TB) SecretKey {
	t.Helper()
	key, err := NewSecretKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignature(t *testing.T) {
	key, other := newKey(t), newKey(t)
	read, err := ParseSecretKey(key.File())
	if err != nil {
		t.Fatal(err)
	}
	public, err := ParsePublicKey(key.Public().File())
	if err != nil {
		t.Fatal(err)
	}
	if line, err := ParsePublicKey(key.Public().String()); err != nil || line.ID() != public.ID() || !strings.HasPrefix(line.String(), "RW") {
		t.Errorf("the line alone: %s, error %v", line, err)
	}
	content := []byte("a = 1\n")
	signature := read.sign(content, "kind")
	if by, err := verify([]PublicKey{other.Public(), public}, content, signature, "kind"); err != nil || by.ID() != public.ID() {
		t.Errorf("verify: key %s, error %v", by.ID(), err)
	}
	impostor := other
	impostor.public.id = key.public.id
	for name, tt := range map[string]struct {
		keys      []PublicKey
		content   string
		signature []byte
		kind      string
		want      string
	}{
		"another content":      {[]PublicKey{public}, "a = 2\n", signature, "kind", "not valid for the content"},
		"another key":          {[]PublicKey{other.Public()}, string(content), signature, "kind", "a key that is not in bundle.keys"},
		"a key of the same ID": {[]PublicKey{public}, string(content), impostor.sign(content, "kind"), "kind", "not valid for the content"},
		"another kind":         {[]PublicKey{public}, string(content), signature, "other", `the signature is that of "kind", not of "other"`},
		"a changed comment":    {[]PublicKey{public}, string(content), []byte(strings.Replace(string(signature), "kind", "other", 1)), "other", "not valid for the content"},
		"no signature":         {[]PublicKey{public}, string(content), nil, "kind", "not in minisign's format"},
	} {
		if _, err := verify(tt.keys, []byte(tt.content), tt.signature, tt.kind); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
	if text := fmt.Sprintf("%v %+v %s", key, key, key); strings.Count(text, "[redacted]") != 3 {
		t.Errorf("a secret key is printed as %s", text)
	}
	damaged := key
	damaged.key = slices.Clone(key.key)
	damaged.key[0]++
	for _, text := range []string{"", "RW", key.Public().File(), damaged.File(), "x" + key.File()} {
		if _, err := ParseSecretKey(text); err == nil {
			t.Errorf("accepted %d bytes as a secret key", len(text))
		}
	}
}

// TestMinisign verifies with the program of that name what this package has signed, and the other way round.
func TestMinisign(t *testing.T) {
	program, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("minisign is not installed")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("minisign %v: %v\n%s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := newKey(t)
	put("bundle.toml", "a = 1\n")
	put("ours.key", key.File())
	put("ours.pub", key.Public().File())
	put("bundle.toml.minisig", string(SignBundle([]byte("a = 1\n"), key)))
	run("-V", "-p", file("ours.pub"), "-m", file("bundle.toml"))
	run("-S", "-W", "-s", file("ours.key"), "-m", file("bundle.toml"), "-t", bundles.comment)
	run("-G", "-W", "-p", file("theirs.pub"), "-s", file("theirs.key"))
	for _, by := range []string{"ours", "theirs"} {
		run("-S", "-s", file(by+".key"), "-m", file("bundle.toml"), "-t", bundles.comment)
		public, err := os.ReadFile(file(by + ".pub"))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := ParsePublicKey(string(public))
		if err != nil {
			t.Fatal(err)
		}
		signature, err := os.ReadFile(file("bundle.toml.minisig"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify([]PublicKey{parsed}, []byte("a = 1\n"), signature, bundles.comment); err != nil {
			t.Errorf("signed by minisign with key %s: %v", by, err)
		}
	}
	secret, err := os.ReadFile(file("theirs.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseSecretKey(string(secret)); err != nil {
		t.Errorf("a key of minisign -G -W: %v", err)
	}
}

// FuzzVerify checks that no changed signature or content is accepted.
func FuzzVerify(f *testing.F) {
	key := newKey(f)
	content := []byte("a = 1\n")
	signature := key.sign(content, "kind")
	f.Add(content, signature)
	f.Add([]byte(""), []byte("untrusted comment: \n\ntrusted comment: \n\n"))
	f.Fuzz(func(t *testing.T, c, s []byte) {
		_, err := verify([]PublicKey{key.Public()}, c, s, "kind")
		if err == nil && string(c) != string(content) {
			t.Errorf("accepted %q for %q", s, c)
		}
		_, _ = ParsePublicKey(string(s))
		_, _ = ParseSecretKey(string(s))
	})
}

// FuzzRollout checks that parsing never panics, and that what is accepted gives every node a valid digest or none.
func FuzzRollout(f *testing.F) {
	f.Add([]byte(`{"kind":"sluice.rollout.v1","scope":"s","sequence":1,"created":"2026-01-01T00:00:00Z","expires":"2026-01-02T00:00:00Z","next":"sha256:` + strings.Repeat("0", 64) + `","stages":[{"percent":25}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRollout(data, "s")
		if err != nil {
			return
		}
		for _, name := range []string{"a", "b"} {
			if d := r.bundle(name, []string{"canary"}, "", r.Created); d != "" && !d.Valid() {
				t.Errorf("node %s gets %q", name, d)
			}
		}
		_ = r.Describe()
	})
}
