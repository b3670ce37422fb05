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

// ID identifies an API. It serves as an index of tables.
type ID uint8

// The APIs that clients can use.
const (
	Chat ID = iota
	Messages
	Responses
	Embeddings
	Rerank
	LegacyCompletions // /v1/completions, which completes a prompt
	Moderations
	Gemini
	GeminiEmbed      // embedContent
	GeminiEmbedBatch // batchEmbedContents
	CohereEmbed
	CohereEmbedV1
	NumAPIs // number of APIs
)

// API describes one of the APIs that clients can use.
type API struct {
	Name string // name in logs, metrics and a plugin's request summary, for example "chat", "messages" or "responses"

	// Translate appends the body of a request of this API in the form that NewRequest's Parse reads. model is the name in
	// the path, "" if it is in the body. It is nil if that is the client's own body.
	Translate func(dst, body []byte, model string) ([]byte, *apierror.Error)

	NewRequest  func() Request
	NewRenderer func() Renderer
	NewReader   func() Reader

	// PassedTexts finds the texts in the responses of providers that speak this API. It is nil if such responses are
	// not passed on.
	PassedTexts PassedTexts

	// AppendError appends the body of an error response. requestID is the gateway's ID of the request, which only some
	// APIs write.
	AppendError func(dst []byte, e *apierror.Error, requestID string) []byte

	// Status returns the status of an error response. If it is nil, the status of the error is used.
	Status func(e *apierror.Error) int

	// AppendCount appends the response to a token count request. It is nil if the API has no such requests. If it is
	// set, every Request of the API is a CountRequest.
	AppendCount func(dst []byte, tokens int64) []byte

	// Limit names the members of a request that limit the tokens of its response. It is zero if responses have no text.
	Limit LimitMembers

	// AppendCallID appends the ID by which clients know the tool call that has an ID of the provider. Both are the inside
	// of a JSON string. If it is nil, clients receive the provider's ID.
	AppendCallID func(dst, id []byte) []byte

	// Failure reads the error response of a provider that speaks this API.
	Failure func(status int, body []byte) *apierror.Error

	// Path returns the path of a value of a request in an error. If it is nil, that is the function Path.
	Path func(v jsondoc.Value) string

	// Heartbeat is a complete frame that clients ignore in a stream.
	Heartbeat string

	// IDPrefix is the prefix of the response IDs that the gateway generates, for example "chatcmpl-".
	IDPrefix string
}

// LimitMembers names the members of a request that limit the tokens of its response.
type LimitMembers struct {
	In    []string // possible names of the object that contains them; nil if that is the request itself
	Names []string // names of the members; the first one is added to requests that have none
}

// NewResponseID generates an ID for a response.
func (a *API) NewResponseID() string { return RandomID(a.IDPrefix) }

// RandomID returns a prefix followed by 128 random bits in hexadecimal. They are unique but not secret.
func RandomID(prefix string) string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	var id [48]byte
	return string(hex.AppendEncode(append(id[:0], prefix...), b[:]))
}

// Request is a client's request, which is read and checked once. After Reset it can be reused for another Parse.
type Request interface {
	// Parse reads and checks a body. It retains the body until Reset and may repair bytes of it in place. An error has
	// status 400, and its Param is the path of the offending member.
	Parse(body []byte, l Limits) *apierror.Error

	// Describe returns the facts of the request, which belong to the Request.
	Describe() *Facts

	// Document returns the request for a provider that speaks the client's API, before the edits of its plugin. Both
	// results are valid until Reset or FitModel.
	Document() (*jsondoc.Doc, []byte)

	// FitModel adapts the request to the limits of its model: maxTokens is the maximum number of tokens that the model
	// can generate, 0 if unknown; thinking reports whether it supports extended thinking. A larger max_tokens is
	// lowered with a warning or, if strict is set, rejected.
	FitModel(maxTokens int64, thinking, strict bool) *apierror.Error

	// AppendChat appends an equivalent chat completions request, as far as that API can express it. The result passes
	// the checks of package openai. The warnings name the members that it leaves out or changes, by their paths in the
	// client's request. It is called after FitModel. An error has TryNext set if a provider that speaks the client's
	// API could serve the request.
	AppendChat(dst []byte) ([]byte, []Warning, *apierror.Error)

	// Origin maps a path in the last document of AppendChat to the client's request. It returns "" if the origin is
	// unknown.
	Origin(path string) string

	// Reset drops the request and releases its body.
	Reset()
}

// OriginError translates an error about the document of r.AppendChat into an error about r: it replaces the path by its
// origin, or removes it if that is unknown. r is nil if the client's request has been released.
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

// CountRequest is a Request of an API that has token count requests.
type CountRequest interface {
	Request

	// ParseCount is Parse for a token count request.
	ParseCount(body []byte, l Limits) *apierror.Error

	// EstimateTokens returns the approximate number of tokens of the request. It rather overestimates than
	// underestimates it.
	EstimateTokens() int64
}

// AddressedRequest is a Request of an API whose URL path contains the model and whether to stream the response. Address
// is called before Parse or ParseCount and applies until Reset.
type AddressedRequest interface {
	Request

	Address(model string, stream bool)
}

// StatefulRequest is a Request of an API whose requests may refer to earlier responses.
type StatefulRequest interface {
	Request

	// Expand loads the responses that the request refers to from the state stored for client. It is called once,
	// directly after Parse. An error may be about the request or about the loaded state.
	Expand(client string) *apierror.Error

	// ItemReference returns the first item of the request that refers to an item of an earlier response.
	ItemReference() jsondoc.Value

	// StoredItems calls f with the ID of each item that the request repeats without its content, so that the provider
	// that has made it must have stored it, until f returns false.
	StoredItems(f func(id jsondoc.Value) bool)

	// Expanded returns the request together with the loaded state. It is valid until Reset or FitModel.
	Expanded() *jsondoc.Doc
}

// RewritableRequest is a Request of an API whose requests the gateway may rewrite: the chat completions API, in which it
// sends requests of other APIs to providers. Its Parse accepts what the gateway has written, with Limits.Lowered.
type RewritableRequest interface {
	Request

	// Rewritten reports whether the Request owns its document, so that the argument of Parse is no longer needed.
	Rewritten() bool

	// Replace makes body the request's document. It is an edited version of it, which the Request retains until Reset.
	// After an error the Request is unchanged.
	Replace(body []byte, l Limits) *apierror.Error
}

// Renderer renders responses in one API.
type Renderer interface {
	response.Renderer

	// Respond sets the request to respond to. It is called first after each Reset. The renderer copies what it needs of
	// the request.
	Respond(to Request)

	// Pass makes the renderer write only frames, from a provider that speaks the same API, until the next Reset. It
	// ignores other events, which the Writer still accounts. Frames that complete a response are held back until
	// Complete. A non-streaming response has one frame, its body.
	Pass()
}

// Reader reads the responses of providers that speak the API. Its errors are of type *apierror.Error and mean that the
// response is invalid. It does not retain its input.
type Reader interface {
	// Reset prepares the reader for the response to another attempt. If pass is set, each event is also appended
	// unchanged, as a frame that follows the events that were read from it.
	Reset(pass bool)

	// ReadEvent reads an event of a stream and appends the resulting events to b.
	ReadEvent(name, data []byte, b *response.Batch) error

	// ReadResponse reads a non-streaming response. If it is an error of the provider, that becomes the batch's failure.
	ReadResponse(body []byte, b *response.Batch) error
}

// ItemReader is a Reader of an API in which requests may repeat items of earlier responses without their content.
type ItemReader interface {
	Reader

	// TakeStoredItems returns the IDs of such items that have been read since the last call, if they are passed on.
	TakeStoredItems() []string
}

// PendingReader is a Reader of an API whose providers may respond before they have generated the response.
type PendingReader interface {
	Reader

	// Pending reports whether the non-streaming response that has been read is still being generated.
	Pending() bool
}
