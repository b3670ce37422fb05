/* A provider for an API in which a client creates a prediction and then asks for it until it is complete, as the one in the folder
   poll, in C. */
#include "sluice.h"

enum { PAUSE = 100 }; /* milliseconds between two requests */

/* Creates the prediction. */
static int32_t request(int32_t binding, sluice_string summary)
{
	(void)binding, (void)summary;
	SLUICE_TRY(sluice_request_path(S("/v1/predictions")));
	sluice_request_write(S("{\"model\":"));
	sluice_request_write(sluice_raw(S("/target")));
	sluice_request_write(S(",\"input\":{\"messages\":"));
	sluice_request_write(sluice_get(sluice_body_get, S("/messages")));
	sluice_request_write(S("}}"));
	return 0;
}

static sluice_string join(sluice_string a, sluice_string b, sluice_string c)
{
	char *text = sluice_alloc(a.size + b.size + c.size);
	size_t n = 0;
	for (size_t i = 0; i < a.size; i++)
		text[n++] = a.data[i];
	for (size_t i = 0; i < b.size; i++)
		text[n++] = b.data[i];
	for (size_t i = 0; i < c.size; i++)
		text[n++] = c.data[i];
	return (sluice_string){text, n};
}

static int32_t next(sluice_string id)
{
	SLUICE_TRY(sluice_next_request(SLUICE_METHOD_GET, join(S("/v1/predictions/"), id, S("")), S(""), PAUSE));
	return 0;
}

/* Reads the prediction. The state is a byte, the number of pieces that have been reported, and the prediction's ID. */
static int32_t response(int32_t binding, int32_t status, sluice_string body)
{
	(void)binding, (void)body;
	char *state = sluice_alloc(SLUICE_MAX_STATE);
	int32_t size = sluice_state_get(state, SLUICE_MAX_STATE);
	sluice_string id = {state + 1, size > 0 ? (size_t)size - 1 : 0};
	int32_t reported = size > 0 ? state[0] : 0;
	if (status >= 500 && id.size)
		return next(id);
	if (status >= 300)
		return sluice_refuse(SLUICE_FAIL_SERVER, S(""), S(""));
	if (!id.size) {
		id = sluice_decoded(S("/id"));
		SLUICE_TRY(sluice_cancel_request(SLUICE_METHOD_POST, join(S("/v1/predictions/"), id, S("/cancel")), S("")));
	}
	int32_t pieces = sluice_input_count(S("/output"));
	for (int32_t i = reported; i < pieces; i++)
		sluice_text(0, SLUICE_ENCODING_ESCAPED, sluice_inside(sluice_at(S("/output/"), (size_t)i, S(""))));
	sluice_string now = sluice_decoded(S("/status"));
	if (sluice_equal(now, S("succeeded"))) {
		sluice_usage(SLUICE_USAGE_PROMPT, sluice_int(S("/metrics/input_token_count")));
		sluice_usage(SLUICE_USAGE_COMPLETION, sluice_int(S("/metrics/output_token_count")));
		sluice_finish(0, SLUICE_FINISH_STOP, S(""));
		sluice_done(SLUICE_DONE_NOW);
		return 0;
	}
	if (sluice_equal(now, S("failed")) || sluice_equal(now, S("canceled")))
		return sluice_refuse(SLUICE_FAIL_SERVER, S(""), sluice_decoded(S("/error")));
	char count = (char)(pieces > reported ? pieces : reported);
	SLUICE_TRY(sluice_state_set(join((sluice_string){&count, 1}, id, S(""))));
	return next(id);
}

/* Is for streams, which this API lacks. */
static int32_t event(int32_t binding, int32_t kind, sluice_string name, sluice_string data)
{
	(void)binding, (void)kind, (void)name, (void)data;
	return sluice_refuse(SLUICE_FAIL_BAD_ANSWER, S(""), S(""));
}

SLUICE_PROVIDER(sluice_no_settings, request, event, response);
