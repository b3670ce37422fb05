// Package abi contains plugin ABI v1 as Go constants and types: the names, numbers and signatures that the gateway
// (host) and a plugin (guest) agree on. README.md in this directory specifies the ABI for authors in any language.
//
// The package has no behaviour and no state. Host and guests import it, so it compiles natively and for wasip1 and has
// no imports.
package abi

// Major is the ABI's major version, which is part of the name of ExportVersion. Minor is the minor version that this
// host implements. A guest may be older. A newer one receives StatusUnknown for numbers that the host does not know.
const (
	Major = 1
	Minor = 7
)

// Module is the name of the import module that provides the host's functions.
const Module = "sluice"

// Exports of a guest.
const (
	ExportMemory     = "memory"
	ExportInitialize = "_initialize"       // () ; optional
	ExportVersion    = "sluice_abi_v1"     // () -> minor
	ExportBuffer     = "sluice_buffer"     // (size) -> address
	ExportPlugin     = "sluice_plugin"     // (length) -> kind ; optional
	ExportConfigure  = "sluice_configure"  // (binding, length) -> status
	ExportForms      = "sluice_forms"      // (binding) -> forms ; optional
	ExportCollect    = "sluice_collect"    // () ; optional
	ExportSummary    = "provider_reads"    // (binding) -> parts ; optional
	ExportRequest    = "provider_request"  // (binding, length) -> status
	ExportResponse   = "provider_response" // (binding, http_status, length) -> status
	ExportEvent      = "provider_event"    // (binding, kind, name_length, data_length) -> status
	ExportEnd        = "provider_end"      // (binding) -> status ; optional
	ExportList       = "provider_list"     // (binding, cursor_length) -> status ; optional
	ExportModels     = "provider_models"   // (binding, http_status, length) -> status ; optional
	ExportReads      = "router_reads"      // (binding) -> parts ; optional
	ExportChoose     = "router_choose"     // (binding, length) -> status

	ExportFilterReads   = "filter_reads"   // (binding) -> parts ; optional
	ExportFilterRequest = "filter_request" // (binding, length) -> status ; optional
	ExportFilterText    = "filter_text"    // (binding, what, choice, flags, held, length) -> status
)

// SectionOptions is the name of the custom section with the JSON Schema of a plugin's options. In a module of several
// plugins, it is followed by a dot and the plugin's name.
const SectionOptions = "sluice.options"

// PluginKind is the result of sluice_plugin. A plugin of several kinds returns the sum of their values.
type PluginKind int32

// The kinds of plugins.
const (
	PluginUnknown  PluginKind = 0 // the module has no plugin with that name
	PluginProvider PluginKind = 1
	PluginRouter   PluginKind = 2
	PluginFilter   PluginKind = 4
)

// Forms is a set of forms. A form is an API whose request format a provider plugin accepts. A single form is a set with
// one element.
type Forms int32

// The forms. Every provider plugin accepts FormChat, so it is not a bit of the set.
const (
	FormChat        Forms = 0  // chat completions
	FormMessages    Forms = 1  // Anthropic Messages
	FormResponses   Forms = 2  // OpenAI Responses
	FormGemini      Forms = 4  // generateContent
	FormCompletions Forms = 8  // legacy completions
	FormEmbeddings  Forms = 16 // OpenAI embeddings
	FormModerations Forms = 32
	FormRerank      Forms = 64 // Cohere rerank

	FormsKnown Forms = 127 // all of them
)

// RouterParts is the result of router_reads: the parts of the compact input that cost the host something to prepare.
type RouterParts int32

// The parts of the compact input.
const (
	RouterCosts    RouterParts = 1 // the expected cost of each target
	RouterHashes   RouterParts = 2 // the hashes of the conversation and the user
	RouterDocument RouterParts = 4 // the summary as JSON, and the options of targets
	RouterMeasured RouterParts = 8 // the measurements of each target; since 1.7
)

// Sizes in bytes of the compact input's head and records. A later minor version may append to both.
const (
	RouterHeadSize   = 96
	RouterRecordSize = 112
)

// RouterFlags are the flags in the head of the compact input.
type RouterFlags int32

// The flags of a request.
const (
	RouterStream       RouterFlags = 1 // the client requests a stream
	RouterIncludeUsage RouterFlags = 2 // the client requests usage in the stream
	RouterAffinity     RouterFlags = 4 // the affinity hash is known
	RouterExplained    RouterFlags = 8 // the explanation is read
)

// TargetFlags are the flags in a record of the compact input.
type TargetFlags int32

// The flags of a target.
const (
	TargetFallback      TargetFlags = 1
	TargetHealthy       TargetFlags = 2
	TargetCachesPrompts TargetFlags = 4
	TargetPriced        TargetFlags = 8 // the expected cost is known
)

// SummaryParts is the result of provider_reads: the parts of the summary that differ from request to request, as far as
// the provider reads them. The others are zero or empty in the compact summary.
type SummaryParts int32

// The parts of the summary.
const (
	SummaryRequestID SummaryParts = 1
	SummaryTime      SummaryParts = 2
	SummaryRandom    SummaryParts = 4
	SummaryBody      SummaryParts = 8 // the size of the body

	SummaryPartsKnown SummaryParts = 15 // all of them
)

// SummaryHeadSize is the size in bytes of the compact summary's head. A later minor version may append to it.
const SummaryHeadSize = 88

// MinIndexed is the smallest size in bytes of the values whose bounds body_index returns.
const MinIndexed = 64

// SummaryFlags are the flags in the head of the compact summary.
type SummaryFlags int32

// The flags of a request.
const (
	SummaryStream       SummaryFlags = 1 // the client requests a stream
	SummaryIncludeUsage SummaryFlags = 2 // the client requests usage in the stream
)

// FilterParts is the result of filter_reads.
type FilterParts int32

// The parts of a request that a filter reads in addition to its texts.
const (
	FilterRequest FilterParts = 1 // the description of the request, for filter_request
)

// Status is the result of an import. An import that returns a length returns a negative status in its place.
type Status int32

// The statuses of imports.
const (
	StatusOK       Status = 0
	StatusAbsent   Status = -1 // no such member, header or tool call
	StatusRefused  Status = -2 // not allowed by the host's rules
	StatusTooLarge Status = -3 // exceeds a limit
	StatusUnknown  Status = -4 // a number that this host does not know
)

// Method is the method of a further request of an attempt.
type Method int32

// The methods.
const (
	MethodGet    Method = 0
	MethodPost   Method = 1
	MethodDelete Method = 2
)

// EventKind is the kind of an event passed to provider_event.
type EventKind int32

// The kinds of upstream events.
const (
	EventPlain     EventKind = 0
	EventException EventKind = 1 // AWS event stream: a frame of message type exception
	EventError     EventKind = 2 // AWS event stream: a frame of message type error
)

// LogLevel is the severity of a plugin's log line.
type LogLevel int32

// The severities.
const (
	LogDebug LogLevel = 0
	LogInfo  LogLevel = 1
	LogWarn  LogLevel = 2
	LogError LogLevel = 3
)

// FailKind is the reason why a request failed. It determines the HTTP status, the error type, the default error code
// and whether another target is tried.
type FailKind int32

// The kinds of failure.
const (
	FailInvalidRequest FailKind = 0
	FailUnsupported    FailKind = 1
	FailContextLength  FailKind = 2
	FailContentPolicy  FailKind = 3
	FailModelNotFound  FailKind = 4
	FailConflict       FailKind = 5
	FailTooLarge       FailKind = 6
	FailRateLimit      FailKind = 7
	FailQuota          FailKind = 8
	FailBilling        FailKind = 9
	FailAuth           FailKind = 10
	FailOverloaded     FailKind = 11
	FailNotReady       FailKind = 12
	FailTimeout        FailKind = 13
	FailCancelled      FailKind = 14
	FailServer         FailKind = 15
	FailBadAnswer      FailKind = 16
	FailBadToolCall    FailKind = 17
	FailDenied         FailKind = 18

	FailKinds = 19 // number of kinds
)

// RetryAfterUnknown is the value of Fail's retryAfterMs if the provider gave no delay.
const RetryAfterUnknown = -1

// Encoding is the encoding of an event's text. EncodingDefault may be added to any of the others.
type Encoding int32

// The encodings.
const (
	EncodingUTF8    Encoding = 0 // plain UTF-8
	EncodingEscaped Encoding = 1 // the bytes between the quotes of a JSON string, still escaped
	EncodingJSON    Encoding = 2 // a JSON value, whose compact form is the text
	EncodingDefault Encoding = 8 // bit: the text is used only if nothing else was reported for the same key

	EncodingMask Encoding = 7
)

// ReasoningPart is a part of a reasoning block.
type ReasoningPart int32

// The parts of reasoning.
const (
	ReasoningText          ReasoningPart = 0
	ReasoningSignature     ReasoningPart = 1
	ReasoningEncrypted     ReasoningPart = 2
	ReasoningSummary       ReasoningPart = 3
	ReasoningToolEncrypted ReasoningPart = 4 // encrypted, for the tool call with the same key

	ReasoningParts = 5 // number of parts
)

// Scope is the object of the response that an extra member is added to.
type Scope int32

// The scopes of extra members.
const (
	ScopeAnswer  Scope = 0
	ScopeChoice  Scope = 1
	ScopeMessage Scope = 2 // message of a non-streaming response, delta of a chunk
	ScopeTool    Scope = 3
	ScopeUsage   Scope = 4

	Scopes = 5 // number of scopes
)

// UsageKind is the kind of a token count. A provider that does not include some tokens in its prompt or completion
// count reports them as a Beside kind, which the host adds to that count.
type UsageKind int32

// The kinds of token counts.
const (
	UsagePrompt           UsageKind = 0
	UsageCompletion       UsageKind = 1
	UsageCached           UsageKind = 2 // cache reads, part of prompt
	UsageCacheWrite       UsageKind = 3 // part of prompt
	UsageReasoning        UsageKind = 4 // part of completion
	UsageAudioIn          UsageKind = 5 // part of prompt
	UsageAudioOut         UsageKind = 6 // part of completion
	UsagePromptBeside     UsageKind = 7
	UsageCachedBeside     UsageKind = 8
	UsageCacheWriteBeside UsageKind = 9
	UsageReasoningBeside  UsageKind = 10
	UsageCacheWrite1h     UsageKind = 11 // part of the cache writes of either kind: written for one hour

	// What the provider bills for, if it differs from the prompt and completion counts. Clients do not see it.
	UsageBilledPrompt     UsageKind = 12
	UsageBilledCompletion UsageKind = 13

	UsageKinds = 14 // number of kinds
)

// FinishReason is the reason why a choice ended.
type FinishReason int32

// The finish reasons.
const (
	FinishStop          FinishReason = 0
	FinishLength        FinishReason = 1
	FinishToolCalls     FinishReason = 2
	FinishContentFilter FinishReason = 3
	FinishFunctionCall  FinishReason = 4

	FinishReasons = 5 // number of reasons
)

// The argument of Done: the response is complete now, or when the upstream's body ends cleanly.
const (
	DoneNow   = 0
	DoneAtEnd = 1
)

// Framing is how the upstream's response body is split into events.
type Framing int32

// The framings.
const (
	FramingJSON           Framing = 0 // one JSON document
	FramingSSE            Framing = 1
	FramingNDJSON         Framing = 2
	FramingAWSEventStream Framing = 3
	FramingAWSInvoke      Framing = 4 // AWS event stream whose chunk events contain the model's own events in base64
	FramingEventsAreJSON  Framing = 8 // bit: the host rejects events, and a document, that are not JSON

	FramingMask Framing = 7
)

// Dialect determines who reads the upstream's response, and in which format.
type Dialect int32

// The dialects.
const (
	DialectTranslated Dialect = 0 // the plugin, event by event
	DialectOpenAI     Dialect = 1 // the host: chat completions
	DialectMessages   Dialect = 2 // the host: Messages
	DialectResponses  Dialect = 3 // the host: Responses
	DialectGemini     Dialect = 4 // the host: generateContent
)

// What is the kind of a text that is passed to a filter.
type What int32

// The kinds of texts: those of a response, and from WhatSystem on those of a request.
const (
	WhatText          What = 0
	WhatRefusal       What = 1
	WhatReasoning     What = 2
	WhatToolArguments What = 3

	WhatSystem        What = 8
	WhatUser          What = 9
	WhatAssistant     What = 10
	WhatToolResult    What = 11
	WhatSentArguments What = 12 // arguments of tool calls in the request's history
	WhatOther         What = 13 // everything else: names, tools, metadata, inputs of embeddings, documents of rerank requests
)

// TextFlags are properties of a text that is passed to a filter.
type TextFlags int32

// The flags of a text.
const (
	TextOfRequest TextFlags = 1
	TextComplete  TextFlags = 2 // this is the end of the text
	TextStreamed  TextFlags = 4 // the response is streamed
)

// WarnKind is what the plugin did to a member of the request, for the header x-gateway-warning.
type WarnKind int32

// The kinds of warning.
const (
	WarnDropped WarnKind = 0
	WarnClamped WarnKind = 1
	WarnChanged WarnKind = 2

	WarnKinds = 3 // number of kinds
)

// Limits, in bytes unless noted.
const (
	MaxState   = 4 << 10 // state of an attempt
	MaxName    = 256     // IDs, names, models, members
	MaxLogLine = 256
	MaxKeys    = 1024 // tool calls and reasoning parts of a choice
	MaxChoices = 128  // choices of a response
	MaxHold    = 1024 // bytes of a text that a filter may hold
	MaxParts   = 8    // parts of an upstream body that the plugin writes

	MaxRequests = 120   // requests of an attempt, the first included
	MinPause    = 100   // milliseconds before a further request
	MaxPause    = 10000 // milliseconds

	// A call may emit MaxOutputFactor times the size of its input plus MaxOutputBase.
	MaxOutputFactor = 8
	MaxOutputBase   = 64 << 10
)
