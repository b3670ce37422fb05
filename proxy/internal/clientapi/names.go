package clientapi

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// knownNames are the names of members in requests that the gateway, a plugin or a provider may read, in all APIs. A
// name of the Gemini API is in camel case; its other spelling, in snake case, is known as well.
//
// A name that is missing here can be circumvented: an upstream that ignores case, as Go's encoding/json does, reads a
// member "Name" where the gateway reads "name".
const knownNames = `
	model messages stream stream_options include_usage include_obfuscation max_tokens max_completion_tokens tools tool_choice
	parallel_tool_calls functions function_call logprobs top_logprobs temperature top_p presence_penalty frequency_penalty n seed thinking
	type budget_tokens reasoning_effort response_format json_schema schema name description strict stop logit_bias metadata modalities
	audio voice format store prediction content web_search_options search_context_size user_location approximate city country region
	timezone user safety_identifier prompt_cache_key prompt_cache_retention service_tier verbosity role tool_calls tool_call_id refusal
	reasoning_content reasoning_details thinking_blocks is_error cache_control ttl text image_url url detail input_audio data file
	file_data file_id filename video_url id function arguments custom input parameters grammar definition syntax allowed_tools mode
	annotations url_citation extra_content extra_body google thought_signature moderation

	top_k top_a min_p typical_p repetition_penalty length_penalty min_tokens ignore_eos best_of echo suffix prompt stop_token_ids
	guided_json guided_regex guided_choice guided_grammar structured_outputs chat_template chat_template_kwargs add_generation_prompt
	continue_final_message documents include_reasoning enable_thinking thinking_budget reasoning_format think keep_alive options num_ctx
	num_predict num_keep n_predict cache_prompt safe_prompt random_seed prompt_mode models provider plugins route transforms order
	allow_fallbacks require_parameters data_collection only ignore quantizations sort max_price preset usage search_parameters deferred
	exclude images tool_name raw template priority bad_words truncate_prompt_tokens prompt_logprobs mm_processor_kwargs

	encoding_format dimensions input_type truncate image query top_n return_documents max_chunks_per_doc max_tokens_per_doc rank_fields

	system stop_sequences output_config effort output_format container mcp_servers context_management edits trigger keep value
	clear_at_least exclude_tools clear_tool_inputs source media_type title context citations caller tool tool_use_id signature
	input_schema allowed_callers defer_loading eager_input_streaming input_examples disable_parallel_tool_use max_uses allowed_domains
	blocked_domains display_height_px display_width_px display_number max_characters max_content_tokens enable_zoom authorization_token
	tool_configuration default_config configs mcp_server_name cited_text document_index document_title start_char_index end_char_index
	start_page_number end_page_number start_block_index end_block_index encrypted_index search_result_index encrypted_content page_age
	stdout stderr return_code error_code file_type display user_id anthropic_version anthropic_beta betas inference_geo speed task_budget
	total skills skill_id version server_name tool_references retrieved_at pause_after_compaction thread previous_message_id
	diagnostics

	instructions max_output_tokens include reasoning summary generate_summary max_tool_calls background previous_response_id conversation
	comparison_response_id prewarm
	variables truncation prompt_cache_options prompt_cache_breakpoint call_id output status action operation namespace phase queries code
	container_id outputs results server_label server_url server_description connector_id authorization require_approval read_only
	tool_names always never approve approval_request_id reason headers vector_store_ids max_num_results ranking_options ranker
	score_threshold filters key environment display_width display_height file_ids memory_limit network_policy partial_images quality size
	output_compression input_fidelity input_image_mask external_web_access command commands timeout_ms working_directory env
	vector_store_id tunnel_id max_output_length outcome exit_code diff path acknowledged_safety_checks pending_safety_checks result revised_prompt bytes token
	start_index end_index index compact_threshold execution file_url generate client_metadata error enabled

	contents parts systemInstruction toolConfig generationConfig safetySettings cachedContent labels functionCallingConfig
	allowedFunctionNames retrievalConfig latLng latitude longitude languageCode streamFunctionCallArguments topP topK candidateCount
	maxOutputTokens stopSequences presencePenalty frequencyPenalty responseLogprobs responseMimeType responseSchema responseJsonSchema
	_responseJsonSchema responseModalities thinkingConfig thinkingBudget thinkingLevel includeThoughts enableEnhancedCivicAnswers
	speechConfig voiceConfig prebuiltVoiceConfig voiceName multiSpeakerVoiceConfig speakerVoiceConfigs speaker mediaResolution imageConfig
	aspectRatio imageSize audioTimestamp modelSelectionConfig featureSelectionPreference routingConfig autoMode manualMode
	modelRoutingPreference modelName functionDeclarations parametersJsonSchema response behavior googleSearch googleSearchRetrieval
	dynamicRetrievalConfig dynamicThreshold codeExecution urlContext computerUse excludedPredefinedFunctions fileSearch
	fileSearchStoreNames metadataFilter googleMaps enableWidget timeRangeFilter startTime endTime enterpriseWebSearch retrieval
	vertexAiSearch datastore vertexRagStore ragResources ragCorpus similarityTopK excludeDomains thought thoughtSignature inlineData
	fileData functionCall functionResponse executableCode codeExecutionResult videoMetadata startOffset endOffset fps mimeType fileUri
	displayName args willContinue scheduling language partMetadata uri category threshold method generateContentRequest serviceTier`

// namesByFold returns the known names by their folds.
var namesByFold = sync.OnceValue(func() map[string]string {
	byFold := map[string]string{}
	for name := range strings.FieldsSeq(knownNames) {
		for _, spelling := range [...]string{name, snakeCase(name)} {
			byFold[string(jsondoc.AppendFolded(nil, []byte(spelling)))] = spelling
		}
	}
	return byFold
})

// camelNames returns the known names in camel case by their spellings in lower case.
var camelNames = sync.OnceValue(func() map[string]string {
	byLower := map[string]string{}
	for name := range strings.FieldsSeq(knownNames) {
		if lower := strings.ToLower(name); lower != name {
			byLower[lower] = name
		}
	}
	return byLower
})

// snakeCase converts a name in camel case.
func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// freeNames reports whether the names in a member's value are the client's or its tools' own: a JSON Schema, the
// arguments of a call, or a map.
func freeNames(m jsondoc.Value) bool {
	var scratch []byte
	switch string(Keyword(m.Name(), &scratch)) {
	case "parameters", "input_schema", "schema", "response_schema", "properties", "$defs", "definitions", "guided_json",
		"responseSchema", "responseJsonSchema", "_responseJsonSchema", "response_json_schema", "_response_json_schema",
		"parametersJsonSchema", "parameters_json_schema",
		"arguments", "args", "input_examples", "response",
		"metadata", "labels", "variables", "headers", "env", "configs", "logit_bias", "documents", "chat_template_kwargs",
		"mm_processor_kwargs", "client_metadata", "partMetadata", "part_metadata":
		return true
	case "input": // of a tool; of a request it is no object
		return m.Kind() == jsondoc.Object
	}
	return false
}

// Spelling tells how the names of an API are spelled.
type Spelling bool

// The spellings.
const (
	SnakeCase Spelling = false
	CamelCase Spelling = true // or snake case
)

// AmbiguousName finds a member in v whose name a parser that ignores case takes for another one: a known name, which is
// returned, or that of another member of the same object, in which case known is empty. The first result is absent if
// there is none. Objects with names of the client's own, such as tool arguments, are skipped.
//
// Nearly all names in snake case are in lower case, and v is only searched where one may not be (see
// jsondoc.Value.Cased).
func AmbiguousName(v jsondoc.Value, s Spelling) (member jsondoc.Value, known string) {
	if s == SnakeCase && !v.Cased() {
		return jsondoc.Value{}, ""
	}
	unknown := false // a cased name is not a known one
	for m := v.First(); m.Exists(); m = m.Next() {
		switch name := m.Name(); {
		case !name.Exists(), isCommon(name.Inside()):
		case name.Cased():
			known := knownName(name)
			if known != "" && !name.Is(known) {
				return m, known
			}
			unknown = unknown || known == ""
		case s == CamelCase:
			if known := camelNames()[string(name.Inside())]; known != "" {
				return m, known
			}
		}
		if m.Kind() >= jsondoc.Object && !freeNames(m) {
			if member, known := AmbiguousName(m, s); member.Exists() {
				return member, known
			}
		}
	}
	if unknown {
		return repeatedFold(v), ""
	}
	return jsondoc.Value{}, ""
}

// isCommon reports whether a name is one of those that most members of a long conversation have. They need no search.
func isCommon(name []byte) bool {
	switch string(name) {
	case "role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "name", "args", "id", "response":
		return true
	}
	return false
}

// knownName returns the known name with the fold of name, "" if there is none.
func knownName(name jsondoc.Value) string {
	const longest = 64
	var text, fold [longest]byte
	if len(name.Inside()) > longest*len(`\u0000`) {
		return ""
	}
	return namesByFold()[string(jsondoc.AppendFolded(fold[:0], name.AppendText(text[:0])))]
}

var foldSeed = maphash.MakeSeed()

// repeatedFold returns a member of an object whose name has the fold of an earlier one, or an absent value.
func repeatedFold(object jsondoc.Value) jsondoc.Value {
	seen := map[uint64]bool{}
	var text, fold []byte
	for m := object.First(); m.Exists(); m = m.Next() {
		text = m.Name().AppendText(text[:0])
		fold = jsondoc.AppendFolded(fold[:0], text)
		h := maphash.Bytes(foldSeed, fold)
		if seen[h] {
			return m
		}
		seen[h] = true
	}
	return jsondoc.Value{}
}

// checkNames rejects a request with an ambiguous name.
func checkNames(root jsondoc.Value, s Spelling) *apierror.Error {
	switch m, known := AmbiguousName(root, s); {
	case known != "":
		return InvalidValue(m, CodeUnknownParameter, "Unknown parameter: '%s'. Did you mean '%s'?", known)
	case m.Exists():
		return InvalidValue(m, CodeInvalidValue, "'%s' is given twice, in two spellings of its name.")
	}
	return nil
}
