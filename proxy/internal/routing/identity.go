package routing

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Salt makes hashes of conversations, users and keys useless to those who do not know the text that it was made from. Gateways that
// are to choose the same targets need the same one.
type Salt struct {
	seed uint64
	key  [32]byte
}

// NewSalt returns the salt of a text, which may be empty.
func NewSalt(text string) *Salt {
	s := &Salt{key: sha256.Sum256([]byte("sluice routing salt\x00" + text))}
	s.seed = binary.BigEndian.Uint64(s.key[:])
	return s
}

// kindOfHash keeps apart what is hashed: the user "a" has another hash than the key "a".
type kindOfHash byte

const (
	hashedConversation kindOfHash = 'c'
	hashedUser         kindOfHash = 'u'
	hashedKey          kindOfHash = 'k'
	hashedHeader       kindOfHash = 'h'
)

// seal makes a hash of its content one that tells nothing about it, by SHA-256 with the salt's key.
func (s *Salt) seal(kind kindOfHash, content uint64) uint64 {
	var block [32 + 1 + 8]byte
	copy(block[:], s.key[:])
	block[32] = byte(kind)
	binary.BigEndian.PutUint64(block[33:], content)
	sum := sha256.Sum256(block[:])
	return binary.BigEndian.Uint64(sum[:])
}

func (s *Salt) hash(kind kindOfHash, text []byte) uint64 {
	return s.seal(kind, clientapi.HashText(text, s.seed))
}

// Hash is a salted hash of something that a request has; Known is false if it has none. From says where it came from: the name of a
// header or of a member of the body, or "content".
type Hash struct {
	Sum   uint64
	From  string
	Known bool
}

// Header looks up the first value of a request's header. *fasthttp.RequestHeader is one.
type Header interface{ Peek(name string) []byte }

// Identity tells whose a request is, and which conversation it belongs to. Each hash is computed when it is first asked for.
// It belongs to its request.
type Identity struct {
	Salt   *Salt
	Header Header       // nil: none
	Doc    *jsondoc.Doc // the body, with what it refers to; nil: none
	Client string       // the name of the client's key, or where none is needed, its address

	conversation, user         Hash
	conversationDone, userDone bool
}

// sessionHeaders are the headers in which a conversation's ID is looked for, the first one first.
var sessionHeaders = [...]string{
	"x-session-id",             // by convention, and OpenCode
	"x-claude-code-session-id", // Claude Code
	"session-id",               // Codex
	"session_id",               // Codex, earlier versions
	"conversation_id",          // the same
	"x-session-affinity",       // OpenCode, for providers other than its own
	"x-opencode-session",       // OpenCode
}

// maxHeaderID bounds an ID in a header: a longer value is none.
const maxHeaderID = 1 << 10

// Conversation is the conversation that the request belongs to: what a header names, else what the body names, else a hash of what
// the requests of a conversation begin with.
func (i *Identity) Conversation() Hash {
	if !i.conversationDone {
		i.conversation, i.conversationDone = i.findConversation(), true
	}
	return i.conversation
}

func (i *Identity) findConversation() Hash {
	for _, name := range sessionHeaders {
		if h := i.ofHeader(hashedConversation, name); h.Known {
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

// User is the client's user, as far as the body names one.
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

func (i *Identity) ofHeader(kind kindOfHash, name string) Hash {
	if i.Header == nil {
		return Hash{}
	}
	v := i.Header.Peek(name)
	if len(v) == 0 || len(v) > maxHeaderID {
		return Hash{}
	}
	return Hash{i.Salt.hash(kind, v), name, true}
}

// Of is the hash by which an affinity chooses. It is not known for a request that has nothing of the kind.
func (i *Identity) Of(a config.Affinity) Hash {
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
		return i.ofHeader(hashedHeader, a.Header)
	}
	return Hash{}
}
