package routing

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Salt is a secret derived from a configured text. Without it, hashes cannot be traced back to the conversations, users
// and keys that they were computed from. Gateways that must choose the same targets need the same salt.
type Salt struct {
	seed uint64
	key  [32]byte
}

// NewSalt derives a salt from a text, which may be empty.
func NewSalt(text string) *Salt {
	s := &Salt{key: sha256.Sum256([]byte("sluice routing salt\x00" + text))}
	s.seed = binary.BigEndian.Uint64(s.key[:])
	return s
}

// hashKind separates the domains of hashes: the user "a" and the key "a" have different hashes.
type hashKind byte

const (
	hashedConversation hashKind = 'c'
	hashedUser         hashKind = 'u'
	hashedKey          hashKind = 'k'
	hashedHeader       hashKind = 'h'
)

// seal turns an unkeyed hash into one that reveals nothing about the content, by SHA-256 with the salt's key.
func (s *Salt) seal(kind hashKind, content uint64) uint64 {
	var block [32 + 1 + 8]byte
	copy(block[:], s.key[:])
	block[32] = byte(kind)
	binary.BigEndian.PutUint64(block[33:], content)
	sum := sha256.Sum256(block[:])
	return binary.BigEndian.Uint64(sum[:])
}

func (s *Salt) hash(kind hashKind, text []byte) uint64 {
	return s.seal(kind, clientapi.HashText(text, s.seed))
}

// Hash is a salted hash of an identifier in a request. Known is false if the request has none. From is the source of
// the identifier: the name of a header or of a member of the body, or "content".
type Hash struct {
	Sum   uint64
	From  string
	Known bool
}

// Header looks up the first value of a request header. *fasthttp.RequestHeader implements it.
type Header interface{ Peek(name string) []byte }

// Identity identifies the client, the user and the conversation of a request. Each hash is computed when it is first
// needed. An Identity belongs to its request.
type Identity struct {
	Salt   *Salt
	Header Header       // may be nil
	Doc    *jsondoc.Doc // the request body; may be nil
	Client string       // name of the client's key, or the client's address if no key is required

	conversation, user         Hash
	conversationDone, userDone bool
}

// sessionHeaders are the headers that may contain a conversation ID, in order of precedence.
var sessionHeaders = [...]string{
	"x-session-id",             // common convention; OpenCode
	"x-claude-code-session-id", // Claude Code
	"session-id",               // Codex
	"session_id",               // Codex, earlier versions
	"conversation_id",          // Codex, earlier versions
	"x-session-affinity",       // OpenCode, for providers other than its own
	"x-opencode-session",       // OpenCode
}

// maxHeaderID is the maximum length of an ID in a header. Longer values are ignored.
const maxHeaderID = 1 << 10

// Conversation returns the hash of the conversation that the request belongs to. The conversation is identified by a
// header, otherwise by an ID in the body, otherwise by the part of the content that all requests of a conversation
// begin with.
func (i *Identity) Conversation() Hash {
	if !i.conversationDone {
		i.conversation, i.conversationDone = i.findConversation(), true
	}
	return i.conversation
}

func (i *Identity) findConversation() Hash {
	for _, name := range sessionHeaders {
		if h := i.hashHeader(hashedConversation, name); h.Known {
			return h
		}
	}
	if i.Doc == nil {
		return Hash{}
	}
	if id, member := clientapi.ConversationID(i.Doc); id.Exists() {
		return Hash{i.Salt.hash(hashedConversation, id.Inside()), member, true}
	}
	content, ok := clientapi.HashConversation(i.Doc, i.Salt.seed)
	if !ok {
		return Hash{}
	}
	return Hash{i.Salt.seal(hashedConversation, content), "content", true}
}

// User returns the hash of the user that the body names.
func (i *Identity) User() Hash {
	if !i.userDone {
		i.userDone = true
		if i.Doc != nil {
			if id, member := clientapi.UserID(i.Doc); id.Exists() {
				i.user = Hash{i.Salt.hash(hashedUser, id.Inside()), member, true}
			}
		}
	}
	return i.user
}

func (i *Identity) hashHeader(kind hashKind, name string) Hash {
	if i.Header == nil {
		return Hash{}
	}
	v := i.Header.Peek(name)
	if len(v) == 0 || len(v) > maxHeaderID {
		return Hash{}
	}
	return Hash{i.Salt.hash(kind, v), name, true}
}

// AffinityHash returns the hash that an affinity chooses targets by. It is unknown if the request has no such
// identifier.
func (i *Identity) AffinityHash(a config.Affinity) Hash {
	switch a.By {
	case config.AffinityConversation:
		return i.Conversation()
	case config.AffinityUser:
		return i.User()
	case config.AffinityKey:
		if len(i.Client) > 0 {
			return Hash{i.Salt.hash(hashedKey, []byte(i.Client)), "key", true}
		}
	case config.AffinityHeader:
		return i.hashHeader(hashedHeader, a.Header)
	}
	return Hash{}
}
