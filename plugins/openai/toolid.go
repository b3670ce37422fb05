package openai

// toolIDs maps the IDs of tool calls to IDs of nine letters and digits, the only ones that some upstreams accept. An ID
// has the same alias in every request, so that the prefix of the request stays the same for the upstream's prompt
// cache. Within a request no two IDs share an alias. No mapping back is needed, because the upstream generates the IDs
// of its own calls.
type toolIDs struct {
	aliases map[string]string
	taken   map[string]bool
}

const idLetters = 9

func (t *toolIDs) reset() {
	clear(t.aliases)
	clear(t.taken)
}

// alias returns the alias of an ID, which is the ID itself if it is valid.
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

// hashID returns nine letters and digits derived from the FNV-1a hash of id and salt.
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
