package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"strings"
)

// acceptGUID is appended to the client's key to compute the server's response, RFC 6455, section 1.3.
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// The errors of CheckHandshake.
var (
	ErrConnection = errors.New("the Connection header does not contain Upgrade")
	ErrVersion    = errors.New("the Sec-WebSocket-Version header is not 13")
	ErrKey        = errors.New("the Sec-WebSocket-Key header is not 16 bytes in base64")
)

// CheckHandshake checks a request whose Upgrade header is websocket. header returns the value of a header.
func CheckHandshake(header func(name string) []byte) error {
	switch {
	case !hasToken(string(header("Connection")), "upgrade"):
		return ErrConnection
	case string(header("Sec-WebSocket-Version")) != "13":
		return ErrVersion
	}
	var nonce [18]byte
	key := header("Sec-WebSocket-Key")
	if len(key) != 24 {
		return ErrKey
	}
	if n, err := base64.StdEncoding.Decode(nonce[:], key); err != nil || n != 16 {
		return ErrKey
	}
	return nil
}

// hasToken reports whether a comma-separated list contains a token, ignoring case.
func hasToken(list, token string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(part), token) {
			return true
		}
	}
	return false
}

// AppendResponse appends the head of the response that accepts a handshake with the client's key. headers are complete
// lines that it contains besides those of the protocol.
func AppendResponse(dst, key []byte, headers string) []byte {
	sum := sha1.Sum(append(append([]byte(nil), key...), acceptGUID...)) // the protocol's choice; not for secrecy
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = base64.StdEncoding.AppendEncode(dst, sum[:])
	return append(append(append(dst, "\r\n"...), headers...), "\r\n"...)
}
