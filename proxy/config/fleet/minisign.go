package fleet

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/blake2b"
)

// The files of minisign: lines of base64, with comments between them. See https://jedisct1.github.io/minisign/.
const (
	algorithmKey       = "Ed" // of a key
	algorithmPrehashed = "ED" // of a signature of a BLAKE2b-512
	untrusted          = "untrusted comment: "
	trusted            = "trusted comment: "
	keyIDSize          = 8
	secretSize         = 158 // of an unencrypted secret key
)

// PublicKey verifies signatures.
type PublicKey struct {
	id  [keyIDSize]byte
	key ed25519.PublicKey
}

// ID returns the key's number as minisign prints it.
func (k PublicKey) ID() string { return fmt.Sprintf("%016X", binary.LittleEndian.Uint64(k.id[:])) }

// String returns the key as it is written in a configuration.
func (k PublicKey) String() string {
	return base64.StdEncoding.EncodeToString(slices.Concat([]byte(algorithmKey), k.id[:], k.key))
}

// File returns the contents of the key's file.
func (k PublicKey) File() string {
	return untrusted + "minisign public key " + k.ID() + "\n" + k.String() + "\n"
}

// ParsePublicKey parses a public key: the contents of its file, or its second line alone.
func ParsePublicKey(text string) (PublicKey, error) {
	data, err := decodeLine(text)
	if err != nil || len(data) != 2+keyIDSize+ed25519.PublicKeySize || string(data[:2]) != algorithmKey {
		return PublicKey{}, errors.New("is not a public key of minisign, which begins with RW")
	}
	k := PublicKey{key: ed25519.PublicKey(data[2+keyIDSize:])}
	copy(k.id[:], data[2:])
	return k, nil
}

// decodeLine decodes the first line that is not a comment.
func decodeLine(text string) ([]byte, error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, untrusted) {
			return base64.StdEncoding.Strict().DecodeString(line)
		}
	}
	return nil, errors.New("is empty")
}

// SecretKey makes signatures. It is never printed.
type SecretKey struct {
	public PublicKey
	key    ed25519.PrivateKey
}

// Format writes nothing of the key.
func (SecretKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// NewSecretKey generates a key.
func NewSecretKey() (SecretKey, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	k := SecretKey{PublicKey{key: public}, key}
	_, _ = rand.Read(k.public.id[:])
	return k, err
}

// Public returns the public key.
func (k SecretKey) Public() PublicKey { return k.public }

// File returns the contents of the key's file, as minisign -G -W writes it: without a password.
func (k SecretKey) File() string {
	var b bytes.Buffer
	b.WriteString(algorithmKey + "\x00\x00B2")
	b.Write(make([]byte, 32+8+8)) // salt and limits of the password
	b.Write(k.public.id[:])
	b.Write(k.key)
	b.Write(make([]byte, 32)) // checksum, which a key without a password does not need
	return untrusted + "minisign unencrypted secret key\n" + base64.StdEncoding.EncodeToString(b.Bytes()) + "\n"
}

// ParseSecretKey parses the contents of a secret key's file. Its errors do not quote it.
func ParseSecretKey(text string) (SecretKey, error) {
	data, err := decodeLine(text)
	if err != nil || len(data) != secretSize || string(data[:2]) != algorithmKey {
		return SecretKey{}, errors.New("is not a secret key of minisign")
	}
	if data[2] != 0 || data[3] != 0 {
		return SecretKey{}, errors.New("is a secret key with a password, which is not supported: minisign -R -W removes it")
	}
	data = data[6+32+8+8:]
	k := SecretKey{key: ed25519.PrivateKey(bytes.Clone(data[keyIDSize : keyIDSize+ed25519.PrivateKeySize]))}
	copy(k.public.id[:], data)
	k.public.key = ed25519.NewKeyFromSeed(k.key.Seed()).Public().(ed25519.PublicKey)
	if !k.public.key.Equal(k.key.Public()) {
		return SecretKey{}, errors.New("is a damaged secret key")
	}
	return k, nil
}

// sign returns the signature of a content, as minisign -S writes it. The comment is signed too.
func (k SecretKey) sign(content []byte, comment string) []byte {
	sum := blake2b.Sum512(content)
	signature := ed25519.Sign(k.key, sum[:])
	global := ed25519.Sign(k.key, slices.Concat(signature, []byte(comment)))
	return fmt.Appendf(nil, "%ssignature from sluice\n%s\n%s%s\n%s\n", untrusted,
		base64.StdEncoding.EncodeToString(slices.Concat([]byte(algorithmPrehashed), k.public.id[:], signature)),
		trusted, comment, base64.StdEncoding.EncodeToString(global))
}

// Errors of verify.
var (
	errSignature  = errors.New("the signature is not in minisign's format")
	errUnknownKey = errors.New("it is signed with a key that is not in bundle.keys")
	errForged     = errors.New("the signature is not valid for the content")
)

// verify checks the signature of a content and its comment, and returns the key that made it.
func verify(keys []PublicKey, content, signature []byte, comment string) (PublicKey, error) {
	lines := strings.Split(strings.TrimSuffix(string(signature), "\n"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], untrusted) || !strings.HasPrefix(lines[2], trusted) {
		return PublicKey{}, errSignature
	}
	strict := base64.StdEncoding.Strict()
	data, err := strict.DecodeString(lines[1])
	global, globalErr := strict.DecodeString(lines[3])
	if err != nil || globalErr != nil || len(data) != 2+keyIDSize+ed25519.SignatureSize || string(data[:2]) != algorithmPrehashed {
		return PublicKey{}, errSignature
	}
	at := slices.IndexFunc(keys, func(k PublicKey) bool { return bytes.Equal(k.id[:], data[2:2+keyIDSize]) })
	if at < 0 {
		return PublicKey{}, errUnknownKey
	}
	key, data, signed := keys[at], data[2+keyIDSize:], strings.TrimPrefix(lines[2], trusted)
	sum := blake2b.Sum512(content)
	if !ed25519.Verify(key.key, sum[:], data) || !ed25519.Verify(key.key, append(data, signed...), global) {
		return PublicKey{}, errForged
	}
	if signed != comment {
		return PublicKey{}, fmt.Errorf("the signature is that of %.40q, not of %q", signed, comment)
	}
	return key, nil
}
