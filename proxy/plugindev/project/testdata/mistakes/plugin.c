/* A provider that makes the mistake that the prompt or the provider's response names. */
#include "sluice.h"

static bool is(sluice_string name, const char *mistake)
{
	size_t n = 0;
	while (n < name.size && mistake[n] && name.data[n] == mistake[n])
		n++;
	return n == name.size && !mistake[n];
}

static volatile size_t zero;
static volatile char *volatile nowhere;
static sluice_string lost;

static __attribute__((noinline)) size_t recurse(size_t n)
{
	volatile char frame[64];
	frame[n % sizeof frame] = (char)n;
	return zero ? 0 : recurse(n + 1) + (size_t)frame[zero];
}

static int32_t configure(int32_t binding)
{
	sluice_string name = sluice_decoded(S("/mistake"));
	(void)binding;
	if (is(name, "error"))
		return sluice_reject(S("no such mistake"));
	if (is(name, "panic"))
		abort();
	return 0;
}

static int32_t request(int32_t binding, sluice_string summary)
{
	char path[] = "/messages/0/content", text[64];
	int32_t size = sluice_body_get((sluice_string){path, sizeof path - 1}, text, sizeof text);
	sluice_string name = {text + 1, size > 2 ? (size_t)size - 2 : 0};
	(void)binding, (void)summary;
	if (is(name, "panic"))
		abort();
	if (is(name, "assertion"))
		sluice_assert(size == 0);
	if (is(name, "index"))
		return text[zero + 100 * 1000 * 1000];
	if (is(name, "loop"))
		while (!zero)
			;
	if (is(name, "recursion"))
		return (int32_t)recurse(1) & 1;
	if (is(name, "memory"))
		for (;;)
			lost.data = sluice_alloc(1 << 20);
	if (is(name, "error"))
		return sluice_reject(S("it went wrong"));
	if (is(name, "error without a message"))
		return 1;
	if (is(name, "refuse"))
		return sluice_refuse(SLUICE_FAIL_UNSUPPORTED, S("messages"), S("Not this prompt."));
	if (is(name, "nothing"))
		return 0;
	if (is(name, "path")) {
		sluice_request_path(S("/other"));
		return 0;
	}
	if (is(name, "path in a check")) {
		SLUICE_TRY(sluice_request_path(S("/other")));
		return 0;
	}
	SLUICE_TRY(sluice_request_path(S("/say")));
	if (is(name, "second path"))
		sluice_request_path(S("/other"));
	else if (is(name, "reserved header"))
		sluice_request_header(S("Authorization"), S("Bearer x"));
	else if (is(name, "header"))
		sluice_request_header(S("x-other"), S("1"));
	else if (is(name, "header with a line feed"))
		sluice_request_header(S("x-own"), S("a\nb"));
	else if (is(name, "edits and writes"))
		sluice_body_set(S("/model"), S("\"m\"")), sluice_request_write(S("{}"));
	else if (is(name, "body is not JSON"))
		sluice_request_write(S("{\"a\":"));
	else if (is(name, "value is not JSON"))
		sluice_body_set(S("/model"), S("m"));
	else if (is(name, "sets in nothing"))
		sluice_body_set(S("/a/b"), S("1"));
	else if (is(name, "unknown framing"))
		sluice_answer(99, SLUICE_DIALECT_TRANSLATED, S(""));
	else if (is(name, "import of another call"))
		sluice_candidate(0);
	else if (is(name, "request and response"))
		sluice_text(0, SLUICE_ENCODING_UTF8, S("Hi")), sluice_done(SLUICE_DONE_NOW);
	else if (is(name, "null pointer"))
		*nowhere = 1;
	else if (is(name, "log"))
		sluice_log(SLUICE_LOG_WARN, S("logged"));
	else if (is(name, "string outside of the memory"))
		sluice_request_write((sluice_string){(const char *)0x7fffff00, 10});
	return 0;
}

static int32_t event(int32_t binding, int32_t kind, sluice_string name, sluice_string data)
{
	(void)binding, (void)kind, (void)name, (void)data;
	return 0;
}

static int32_t response(int32_t binding, int32_t status, sluice_string body)
{
	static char large[SLUICE_MAX_STATE + 1];
	sluice_string name = sluice_decoded(S("/mistake"));
	bool text = true, finish = true, done = true;
	(void)binding, (void)status, (void)body;
	if (is(name, "panic"))
		abort();
	if (is(name, "nothing"))
		return 0;
	if (is(name, "endless output"))
		for (;;)
			sluice_text(0, SLUICE_ENCODING_UTF8, S("Hi"));
	if (is(name, "text after finish"))
		sluice_finish(0, SLUICE_FINISH_STOP, S("")), finish = false;
	if (is(name, "arguments without a call"))
		sluice_tool_arguments(0, 1, SLUICE_ENCODING_UTF8, S("{}"));
	if (is(name, "arguments are not JSON"))
		sluice_tool_call(0, 1, S("c"), S("f")), sluice_tool_arguments(0, 1, SLUICE_ENCODING_UTF8, S("{")), text = false;
	if (is(name, "reserved member"))
		sluice_extra(SLUICE_SCOPE_ANSWER, 0, 0, S("choices"), S("[]"));
	if (is(name, "large state"))
		sluice_state_set((sluice_string){large, sizeof large});
	if (is(name, "not UTF-8"))
		sluice_text(0, SLUICE_ENCODING_UTF8, S("\xff"));
	if (is(name, "unescaped"))
		sluice_text(0, SLUICE_ENCODING_ESCAPED, S("a\"b"));
	if (is(name, "unknown encoding"))
		sluice_text(0, 7, S("Hi"));
	if (is(name, "unknown reason"))
		sluice_finish(0, 99, S("")), finish = false;
	if (is(name, "negative usage"))
		sluice_usage(SLUICE_USAGE_PROMPT, -1);
	if (is(name, "choice out of range"))
		sluice_text(-1, SLUICE_ENCODING_UTF8, S("Hi"));
	if (is(name, "no finish"))
		finish = false;
	if (is(name, "no done"))
		finish = done = false;
	if (text)
		sluice_text(0, SLUICE_ENCODING_UTF8, S("Hi"));
	if (finish)
		sluice_finish(0, SLUICE_FINISH_STOP, S(""));
	if (done)
		sluice_done(SLUICE_DONE_NOW);
	if (is(name, "text after done"))
		sluice_text(0, SLUICE_ENCODING_UTF8, S("Hi"));
	if (is(name, "usage after done"))
		sluice_usage(SLUICE_USAGE_PROMPT, 5);
	return 0;
}

SLUICE_PROVIDER(configure, request, event, response);
