package abi_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// constants returns the package's integer constants by name. It reads them from the source, so that none is missed.
func constants(t *testing.T) map[string]int64 {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range []string{"abi.go", "imports.go"} {
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := new(types.Config).Check("abi", fset, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() == constant.Int {
			all[name], _ = constant.Int64Val(c.Val())
		}
	}
	return all
}

func readme(t *testing.T) string {
	t.Helper()
	p, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// covers: C33
func TestReadmeHasEveryExport(t *testing.T) {
	text := readme(t)
	for _, name := range []string{
		abi.ExportMemory, abi.ExportInitialize, abi.ExportVersion, abi.ExportBuffer, abi.ExportPlugin, abi.ExportConfigure, abi.ExportForms, abi.ExportCollect,
		abi.ExportSummary, abi.ExportRequest, abi.ExportResponse, abi.ExportEvent, abi.ExportEnd, abi.ExportList, abi.ExportModels, abi.ExportReads, abi.ExportChoose,
		abi.ExportFilterReads, abi.ExportFilterRequest, abi.ExportFilterText,
	} {
		if !strings.Contains(text, "\n| `"+name+"` |") {
			t.Errorf("the table of exports lacks %s", name)
		}
	}
	if !strings.HasSuffix(abi.ExportVersion, fmt.Sprintf("_v%d", abi.Major)) {
		t.Errorf("%s does not carry the major version %d", abi.ExportVersion, abi.Major)
	}
	if !strings.Contains(text, fmt.Sprintf("This is version %d.%d.", abi.Major, abi.Minor)) {
		t.Errorf("the page does not state version %d.%d", abi.Major, abi.Minor)
	}
}

// importType returns an import's type in the notation of the table.
func importType(i abi.Import) string {
	s := i.Params
	if i.Results != "" {
		s += " -> " + i.Results
	}
	return strings.TrimSpace(s)
}

func importPhases(i abi.Import) string {
	letters := []struct {
		phase  abi.Phase
		letter string
	}{
		{abi.PhaseRequest, "q"}, {abi.PhaseAnswer, "a"}, {abi.PhaseList, "l"}, {abi.PhaseModels, "m"},
		{abi.PhaseRouter, "r"}, {abi.PhaseConfigure, "c"}, {abi.PhaseFilter, "f"}, {abi.PhaseText, "t"},
	}
	var s []string
	for _, l := range letters {
		if i.Phases&l.phase != 0 {
			s = append(s, l.letter)
		}
	}
	return strings.Join(s, " ")
}

// covers: C33
func TestReadmeHasEveryImport(t *testing.T) {
	text := readme(t)
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*?) ?\\| `([siI]* ?(?:-> [iI])?)` \\| ([qalmrcft ]+) \\|")
	rows := row.FindAllStringSubmatch(text, -1)
	if len(rows) != len(abi.Imports) {
		t.Errorf("the table has %d imports, the package %d", len(rows), len(abi.Imports))
	}
	for n, i := range abi.Imports {
		if n >= len(rows) {
			t.Errorf("%s is missing", i.Name)
			continue
		}
		r := rows[n]
		if r[1] != i.Name || r[3] != importType(i) || r[4] != importPhases(i) {
			t.Errorf("row %d is %s %s in %s, want %s %s in %s", n, r[1], r[3], r[4], i.Name, importType(i), importPhases(i))
		}
		// An s parameter has one name; an address and a capacity have one each.
		if names := strings.FieldsFunc(r[2], func(r rune) bool { return r == ',' }); len(names) != len(i.Params) {
			t.Errorf("%s names %q for %d parameters", i.Name, r[2], len(i.Params))
		}
	}
}

// covers: C33
func TestReadmeHasEveryNumber(t *testing.T) {
	text := readme(t)
	// The page's text for each constant; %d stands for its number.
	words := map[string]string{
		"PluginUnknown": "| %d | there is no plugin of that name", "PluginProvider": "| %d | a provider |", "PluginRouter": "| %d | a router |",
		"PluginFilter": "| %d | a filter |",
		"WhatText":     "| %d | text |", "WhatRefusal": "| %d | refusal |", "WhatReasoning": "| %d | reasoning |", "WhatToolArguments": "| %d | tool arguments |",
		"WhatSystem": "| %d | system |", "WhatUser": "| %d | user |", "WhatAssistant": "| %d | assistant |", "WhatToolResult": "| %d | tool result |",
		"WhatSentArguments": "| %d | tool arguments |", "WhatOther": "| %d | other:",
		"TextOfRequest": "| %d | the text is of a request", "TextComplete": "| %d | the text is complete", "TextStreamed": "| %d | the response is streamed",
		"FormMessages": "| %d | `messages` |", "FormResponses": "| %d | `responses` |", "FormGemini": "| %d | `gemini` |",
		"FormCompletions": "| %d | `completions` |", "FormEmbeddings": "| %d | `embeddings` |", "FormModerations": "| %d | `moderations` |",
		"FormRerank":       "| %d | `rerank` |",
		"SummaryRequestID": "| %d | `request_id` |", "SummaryTime": "| %d | `time` |", "SummaryRandom": "| %d | `random` |", "SummaryBody": "| %d | `body` |",
		"SummaryStream": "sum of %d: the client requests a stream", "SummaryIncludeUsage": "%d: the client requests usage", "SummaryHeadSize": "a head of %d bytes",
		"FilterRequest": "`filter_reads` returns %d,",
		"RouterCosts":   "| %d | `expected_cost`", "RouterHashes": "| %d | the hashes", "RouterDocument": "| %d | the document", "RouterMeasured": "| %d | the measurements",
		"RouterStream": "sum of %d: `stream`", "RouterIncludeUsage": "%d: `include_usage`", "RouterAffinity": "%d: `affinity` is known", "RouterExplained": "%d: an explanation is read",
		"TargetFallback": "sum of %d: `fallback`", "TargetHealthy": "%d: `healthy`", "TargetCachesPrompts": "%d: `caches_prompts`", "TargetPriced": "%d: `expected_cost` is known",
		"RouterHeadSize": "a head of %d bytes", "RouterRecordSize": "A record of %d bytes",
		"StatusOK": "| %d | done", "StatusAbsent": "| %d | absent", "StatusRefused": "| %d | refused",
		"StatusTooLarge": "| %d | too large", "StatusUnknown": "| %d | unknown",
		"EventPlain": "| %d | an event", "EventException": "| %d | a frame of type `exception`", "EventError": "| %d | a frame of type `error`",
		"LogDebug": "%d debug", "LogInfo": "%d info", "LogWarn": "%d warn", "LogError": "%d error",
		"FailInvalidRequest": "| %d | invalid_request |", "FailUnsupported": "| %d | unsupported |",
		"FailContextLength": "| %d | context_length |", "FailContentPolicy": "| %d | content_policy |",
		"FailModelNotFound": "| %d | model_not_found |", "FailConflict": "| %d | conflict |", "FailTooLarge": "| %d | too_large |",
		"FailRateLimit": "| %d | rate_limit |", "FailQuota": "| %d | quota |", "FailBilling": "| %d | billing |",
		"FailAuth": "| %d | auth |", "FailOverloaded": "| %d | overloaded |", "FailNotReady": "| %d | not_ready |",
		"FailTimeout": "| %d | timeout |", "FailCancelled": "| %d | cancelled |", "FailServer": "| %d | server |",
		"FailBadAnswer": "| %d | bad_answer |", "FailBadToolCall": "| %d | bad_tool_call |", "FailDenied": "| %d | denied |",
		"RetryAfterUnknown": "`retry_after_ms` is %d if",
		"MethodGet":         "| %d | GET |", "MethodPost": "| %d | POST |", "MethodDelete": "| %d | DELETE |",
		"EncodingUTF8": "| %d | UTF-8 |", "EncodingEscaped": "| %d | the inside of a JSON string",
		"EncodingJSON": "| %d | a JSON value", "EncodingDefault": "| +%d | default",
		"ReasoningText": "| %d | text |", "ReasoningSignature": "| %d | signature |", "ReasoningEncrypted": "| %d | encrypted |",
		"ReasoningSummary": "| %d | summary |", "ReasoningToolEncrypted": "| %d | encrypted, belonging",
		"ScopeAnswer": "| %d | the response |", "ScopeChoice": "| %d | a choice |", "ScopeMessage": "| %d | its message",
		"ScopeTool": "| %d | a tool call |", "ScopeUsage": "| %d | the usage |",
		"UsagePrompt": "| %d | prompt |", "UsageCompletion": "| %d | completion |", "UsageCached": "| %d | cached:",
		"UsageCacheWrite": "| %d | cache_write:", "UsageReasoning": "| %d | reasoning:", "UsageAudioIn": "| %d | audio_in:",
		"UsageAudioOut": "| %d | audio_out:", "UsagePromptBeside": "| %d | prompt_beside |", "UsageCachedBeside": "| %d | cached_beside |",
		"UsageCacheWriteBeside": "| %d | cache_write_beside |", "UsageReasoningBeside": "| %d | reasoning_beside |",
		"UsageCacheWrite1h": "| %d | cache_write_1h:",
		"UsageBilledPrompt": "| %d | billed_prompt:", "UsageBilledCompletion": "| %d | billed_completion:",
		"FinishStop": "| %d | stop |", "FinishLength": "| %d | length |", "FinishToolCalls": "| %d | tool_calls |",
		"FinishContentFilter": "| %d | content_filter |", "FinishFunctionCall": "| %d | function_call |",
		"DoneNow": "`done(%d)` completes the response", "DoneAtEnd": "`done(%d)`\n  completes it at a clean",
		"FramingJSON": "| %d | one JSON document |", "FramingSSE": "| %d | server-sent events |",
		"FramingNDJSON": "| %d | newline-delimited JSON |", "FramingAWSEventStream": "| %d | AWS event stream |", "FramingAWSInvoke": "| %d | AWS event stream of Bedrock's InvokeModel:",
		"FramingEventsAreJSON": "| +%d | the events are JSON",
		"DialectTranslated":    "| %d | translated:", "DialectOpenAI": "| %d | openai:",
		"DialectMessages": "| %d | messages:", "DialectResponses": "| %d | responses:",
		"DialectGemini": "| %d | gemini:",
		"WarnDropped":   "was %d dropped", "WarnClamped": "%d clamped", "WarnChanged": "%d changed",
	}
	limits := map[string]string{
		"MinIndexed": "or at least %s bytes if `size` is",
		"MaxState":   "| state | %s bytes", "MaxName": "| IDs, names, models, members | %s bytes", "MaxLogLine": "| log lines | %s bytes",
		"MaxKeys": "parts of a choice | %s |", "MaxChoices": "| choices of a response | %s |",
		"MaxRequests": "| requests of an attempt | %s |", "MinPause": "`pause_ms`, %s to", "MaxPause": "to %s milliseconds",
		"MaxHold": "| text held by a filter | %s bytes", "MaxParts": "written in up to %s parts",
		"MaxOutputFactor": "| output of one call | %s × its input", "MaxOutputBase": "its input + %s bytes",
	}
	notOnThePage := map[string]bool{ // counts, masks and versions
		"Major": true, "Minor": true, "FailKinds": true, "EncodingMask": true, "FramingMask": true, "ReasoningParts": true, "Scopes": true,
		"UsageKinds": true, "FinishReasons": true, "WarnKinds": true, "FormChat": true, "FormsKnown": true, "SummaryPartsKnown": true,
		"PhaseRequest": true, "PhaseAnswer": true, "PhaseList": true, "PhaseModels": true, "PhaseRouter": true, "PhaseConfigure": true, "phasesInput": true,
		"PhaseFilter": true, "PhaseText": true,
	}
	for name, value := range constants(t) {
		var want string
		switch {
		case words[name] != "":
			want = fmt.Sprintf(words[name], value)
		case limits[name] != "":
			want = fmt.Sprintf(limits[name], thousands(value))
		case notOnThePage[name]:
			continue
		default:
			t.Errorf("add the words for %s to this test", name)
			continue
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: the page lacks %q", name, want)
		}
	}
}

// thousands formats a number with thousands separators.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
