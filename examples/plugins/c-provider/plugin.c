/* A provider plugin for a simple API: POST /say accepts a chat completions request with "turns" instead of "messages",
   and streams events: {"text":"…"} for each piece of text, and {"tokens":…} at the end. */
#include "sluice.h"

/* Builds the provider's request from the client's. */
static int32_t request(int32_t binding, sluice_string summary)
{
	(void)binding, (void)summary;
	if (sluice_has(S("/flags/"), S("tools")))
		return sluice_refuse(SLUICE_FAIL_UNSUPPORTED, S("tools"), S("The upstream has no tools."));
	SLUICE_TRY(sluice_request_path(S("/say")));
	SLUICE_TRY(sluice_answer(SLUICE_FRAMING_SSE | SLUICE_FRAMING_EVENTS_ARE_JSON, SLUICE_DIALECT_TRANSLATED, S("")));
	SLUICE_TRY(sluice_body_set(S("/model"), sluice_raw(S("/target"))));
	SLUICE_TRY(sluice_body_rename(S("/messages"), S("turns")));
	return 0;
}

/* Reports the content of an event in the provider's stream. */
static int32_t event(int32_t binding, int32_t kind, sluice_string name, sluice_string data)
{
	(void)binding, (void)kind, (void)name, (void)data;
	sluice_string text = sluice_inside(S("/text"));
	if (text.data)
		sluice_text(0, SLUICE_ENCODING_ESCAPED, text);
	int64_t tokens = sluice_int(S("/tokens"));
	if (tokens >= 0) {
		sluice_usage(SLUICE_USAGE_COMPLETION, tokens);
		sluice_finish(0, SLUICE_FINISH_STOP, S(""));
		sluice_done(SLUICE_DONE_NOW);
	}
	return 0;
}

/* Interprets a response without a stream, which is always an error in this API. */
static int32_t response(int32_t binding, int32_t status, sluice_string body)
{
	(void)binding, (void)body;
	return sluice_refuse(status == 429 ? SLUICE_FAIL_RATE_LIMIT : SLUICE_FAIL_SERVER, S(""), S(""));
}

SLUICE_PROVIDER(sluice_no_settings, request, event, response);
