package openai

// toolIDs maps the ids of tool calls to ids of nine letters and digits, the only ones that some upstreams take. The
// same id has the same alias in every request, so that the upstream's cache of prompts finds what it has seen; within a
// request no two ids have the same one. The way back is not needed: what the upstream calls next has an id of its own.
type toolIDs struct {
	aliases map[string]string
	taken   map[string]bool
}

const idLetters = 9

func (t *toolIDs) reset() {
	clear(t.aliases)
	clear(t.taken)
}

// alias returns the upstream's id for id, which is id itself if valid.
func (t *toolIDs) alias(id string) string {
	if alias, ok := t.aliases[id]; ok {
		return alias
	}
	if t.aliases == nil {
		t.aliases, t.taken = map[string]string{}, map[string]bool{}
	}
	alias := id
	for salt := uint64(0); !nineLetters(alias) || t.taken[alias]; salt++ {
		alias = hashID(id, salt)
	}
	t.aliases[id], t.taken[alias] = alias, true
	return alias
}

func nineLetters(id string) bool {
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return len(id) == idLetters
}

// hashID is nine letters and digits made of the FNV-1a hash of id and salt.
func hashID(id string, salt uint64) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h = (h ^ salt) * 1099511628211
	var out [idLetters]byte
	for i := range out {
		out[i] = letters[h%uint64(len(letters))]
		h /= uint64(len(letters))
	}
	return string(out[:])
}
