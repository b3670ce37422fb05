package clientapi

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// ID numbers the APIs that clients can use, for tables of them.
type ID uint8

// The APIs.
const (
	Chat ID = iota
	Messages
	Responses
	Embeddings
	Rerank
	LegacyCompletions // of a prompt
	Moderations
	Gemini
	NumAPIs // how many there are
)

// API is one of the APIs in which clients ask for a completion.
type API struct {
	Name string // in the log, in metrics and in a plugin's summary: "chat", "messages", "responses"

	NewRequest  func() Request
	NewRenderer func() Renderer
	NewReader   func() Reader

	// PassedTexts finds the texts in the responses of providers that speak the API themselves; nil: they are not passed on.
	PassedTexts PassedTexts

	// AppendError appends the body of an error response. requestID is the gateway's own, for APIs whose bodies have it.
	AppendError func(dst []byte, e *apierror.Error, requestID string) []byte

	// Status is the status of an error response; nil: that of the error.
	Status func(e *apierror.Error) int

	// AppendCount appends the response to a request for the number of its tokens; nil: the API has no such request. A Request is a
	// CountRequest if it has.
	AppendCount func(dst []byte, tokens int64) []byte

	// Limit is where a request limits the tokens of its response; zero: there is no text in the response.
	Limit LimitMembers

	// Failure reads a provider's error response, one of an API that it speaks itself.
	Failure func(status int, body []byte) *apierror.Error

	// Heartbeat is a whole frame that a client of a stream ignores.
	Heartbeat string

	// IDPrefix begins the IDs that the gateway gives responses: "chatcmpl-".
	IDPrefix string
}

// LimitMembers are the members of a request that limit the tokens of its response.
type LimitMembers struct {
	In    []string // the member of the document that has them, by the names that it may have; nil: the document itself
	Names []string // the first is the one that is written where there is none
}

// NewResponseID is an ID that the gateway gives a response.
func (a *API) NewResponseID() string { return RandomID(a.IDPrefix) }

// RandomID is 128 random bits after a prefix. They need not be secret: they only must not repeat.
func RandomID(prefix string) string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	var id [48]byte
	return string(hex.AppendEncode(append(id[:0], prefix...), b[:]))
}

// Request is a client's request that is read and checked once. It is ready for Parse, also again after Reset.
type Request interface {
	// Parse reads and checks a body. It keeps the body, without a copy, until Reset, and may repair bytes of it in place. The
	// error is a 400 whose Param is the path of the offending member.
	Parse(body []byte, l Limits) *apierror.Error

	// Describe returns what the gateway has to know of the request. It is the request's own.
	Describe() *Facts

	// Document is the request as it goes to a provider that speaks the client's API, but for what its plugin edits. Both are
	// valid until Reset or FitModel.
	Document() (*jsondoc.Doc, []byte)

	// FitModel fits the request to what is known of its model: maxTokens is the largest number of tokens that it can generate, 0
	// if unknown; thinking is whether it supports extended thinking. A larger max_tokens is lowered, with a warning; if
	// strict, it is an error.
	FitModel(maxTokens int64, thinking, strict bool) *apierror.Error

	// AppendChat appends a chat completions request that asks for the same, as far as that API can: it passes the checks of
	// package openai. The warnings name what it leaves out or changes, by the client's paths. It is called after FitModel. An
	// error has TryNext set where a provider that speaks the client's API could serve the request.
	AppendChat(dst []byte) ([]byte, []Warning, *apierror.Error)

	// Origin is the client's path of what stands at a path of the document that AppendChat has written last: "" if it is
	// not known.
	Origin(path string) string

	// Reset drops the request and releases its body.
	Reset()
}

// OriginError returns an error of the document that AppendChat has written as one of the client's own, r: it names the place in r, as far as
// that is known. r is nil where the client's request is gone.
func OriginError(r Request, e *apierror.Error) *apierror.Error {
	if e.Param == "" {
		return e
	}
	moved := *e
	moved.Param = ""
	if r != nil {
		moved.Param = r.Origin(e.Param)
	}
	if moved.Param != "" {
		moved.Message = strings.ReplaceAll(e.Message, e.Param, moved.Param)
	}
	return &moved
}

// CountRequest is a Request of an API that counts tokens.
type CountRequest interface {
	Request

	// ParseCount is Parse for a request that gets the number of its tokens, and no response.
	ParseCount(body []byte, l Limits) *apierror.Error

	// EstimateTokens returns about how many tokens the request has, and rather too many than too few.
	EstimateTokens() int64
}

// AddressedRequest is a Request of an API in which the path has the model, and whether the response is a stream. Address is called
// before Parse or ParseCount, and holds until Reset.
type AddressedRequest interface {
	Request

	Address(model string, stream bool)
}

// StatefulRequest is a Request of an API whose requests may refer to earlier responses.
type StatefulRequest interface {
	Request

	// Expand finds what the request refers to among what is kept for the client. It is called once after Parse, before anything
	// else. The error is one of the request with what it refers to.
	Expand(client string) *apierror.Error

	// Expanded is the document with what the request refers to. It is valid until Reset or FitModel.
	Expanded() *jsondoc.Doc

	// Previous is the ID of the response that the request goes on from, "" for none.
	Previous() string
}

// Renderer spells responses in one API.
type Renderer interface {
	response.Renderer

	// Respond says which request is responded to: after each Reset, before anything else. What the renderer needs of the request
	// it copies.
	Respond(to Request)

	// Pass makes the renderer write the frames that it is given, of a provider that speaks the same API, and nothing by itself,
	// until the next Reset: what else it is told is only accounted by the Writer. The frames that complete a response wait
	// for Complete. For a non-streaming response the one frame is its body.
	Pass()
}

// Reader reads the responses of providers that speak an API themselves. Its errors are *apierror.Error: the response cannot be
// understood. What it is given is not kept.
type Reader interface {
	// Reset prepares the reader for the response to another attempt. pass adds each event as a frame, too, after what it means.
	Reset(pass bool)

	// ReadEvent reads an event of a stream and appends what it means to b.
	ReadEvent(name, data []byte, b *response.Batch) error

	// ReadResponse reads a non-streaming response. One that is an error becomes the batch's failure.
	ReadResponse(body []byte, b *response.Batch) error
}
