/* A provider that reports what functions of the kit return for each message. */
#include "sluice.h"

static void write(sluice_string text) { sluice_text(0, SLUICE_ENCODING_UTF8, text); }

static void write_number(const char *before, int64_t n)
{
	write((sluice_string){before, 1});
	if (n < 0)
		write(S("-"));
	write(sluice_at(S(""), (size_t)(n < 0 ? -n : n), S("")));
}

/* Returns a string of the client's body without its quotes. */
static sluice_string inside(sluice_string path)
{
	sluice_string s = sluice_get(sluice_body_get, path);
	return s.size < 2 ? s : (sluice_string){s.data + 1, s.size - 2};
}

static int32_t count(sluice_string path)
{
	int32_t n = sluice_body_count(path);
	return n < 0 ? 0 : n;
}

static int32_t request(int32_t binding, sluice_string summary)
{
	(void)binding, (void)summary;
	double temperature = 0, status = 0;
	sluice_parse(sluice_get(sluice_body_get, S("/temperature")), &temperature);
	sluice_parse(sluice_get(sluice_body_get, S("/max_tokens")), &status);
	write(sluice_at(S(""), (size_t)count(S("/messages")), S("")));
	write_number(" ", count(S("/model")));
	write_number(" ", (int64_t)(temperature * 1000));
	write_number(" ", sluice_status_kind((int32_t)status));
	for (int32_t i = 0; i < count(S("/messages")); i++) {
		sluice_string text = inside(sluice_at(S("/messages/"), (size_t)i, S("/content")));
		write(S("\n"));
		write(inside(sluice_at(S("/messages/"), (size_t)i, S("/role"))));
		write_number(" ", sluice_retry_delay(text));
		write_number(" ", sluice_finish_reason_of(text));
	}
	sluice_finish(0, SLUICE_FINISH_STOP, S(""));
	sluice_done(SLUICE_DONE_NOW);
	return 0;
}

static int32_t event(int32_t binding, int32_t kind, sluice_string name, sluice_string data)
{
	return (void)binding, (void)kind, (void)name, (void)data, 0;
}

static int32_t response(int32_t binding, int32_t status, sluice_string body) { return (void)binding, (void)status, (void)body, 0; }

SLUICE_PROVIDER(sluice_no_settings, request, event, response);
