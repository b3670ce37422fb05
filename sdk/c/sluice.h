/* The kit for plugins of the Sluice gateway in C11. A plugin is a few functions and one line that exports them: SLUICE_PROVIDER,
   SLUICE_ROUTER or SLUICE_FILTER, in one file of the plugin. README.md shows a complete one.

   A plugin works by calling the functions in sluice_abi.h, which sdk/abi/README.md specifies. The gateway may run each call on
   another instance, so a plugin must not keep state between calls, except what it derives from its settings. No C library is
   needed. */
#ifndef SLUICE_H
#define SLUICE_H

#include "sluice_abi.h"
#include <stdbool.h>
#if __has_include(<stdlib.h>)
#include <stdlib.h>
#endif

/* A string literal as a sluice_string: S("text"). */
#define S(literal) ((sluice_string){"" literal, sizeof(literal) - 1})

#define SLUICE_EXPORT(name) __attribute__((export_name(#name), used))

/* Ends the call and logs the line of the source. */
#define sluice_panic(message) sluice_panic_at(__FILE__, __LINE__, message)
#define sluice_assert(condition) ((condition) ? (void)0 : sluice_panic("assertion failed: " #condition))
#undef abort
#define abort() sluice_panic("abort")

/* Returns 1 from a function of the plugin, and logs the line, if an import returns a negative status. */
#define SLUICE_TRY(import) \
	do { \
		int32_t sluice_result = (import); \
		if (sluice_result < 0) { \
			sluice_log_at(__FILE__, __LINE__, #import, sluice_result); \
			return 1; \
		} \
	} while (0)

/* A bump allocator. All memory of a call is free again when the next one begins. It starts with the rest of the 64 KiB page that
   every instance has. */
struct sluice_memory {
	char *next, *end, *floor; /* memory below floor is never freed: the input buffer, and allocations of configure */
	char *input;
	size_t input_size;
	char first[36 << 10];
};
extern struct sluice_memory sluice_memory;

/* Logs why a call fails, with the place in the source. */
static inline void sluice_log_at(const char *file, int line, const char *what, int32_t status)
{
	char text[SLUICE_MAX_LOG_LINE], digits[12], *d = digits + sizeof digits;
	size_t n = 0;
	while (*file && n < 80)
		text[n++] = *file++;
	text[n++] = ':';
	do
		*--d = (char)('0' + line % 10);
	while (line /= 10);
	while (d < digits + sizeof digits)
		text[n++] = *d++;
	text[n++] = ':', text[n++] = ' ';
	static const char *const why[] = {"", ": absent", ": refused", ": too large", ": unknown to this gateway"};
	const char *end = why[status < 0 && status >= -4 ? -status : 0];
	while (*what && n < sizeof text - 32)
		text[n++] = *what++;
	while (*end)
		text[n++] = *end++;
	sluice_log(SLUICE_LOG_ERROR, (sluice_string){text, n});
}

_Noreturn static inline void sluice_panic_at(const char *file, int line, const char *message)
{
	sluice_log_at(file, line, message, 0);
	__builtin_trap();
}

/* Allocates memory that lasts until the next call begins, or forever if sluice_configure is running. */
static inline char *sluice_alloc(size_t size)
{
	struct sluice_memory *m = &sluice_memory;
	size = (size + 15) & ~(size_t)15;
	if (!m->end)
		m->next = m->floor = m->first, m->end = m->first + sizeof m->first;
	if (size > (size_t)(m->end - m->next)) {
		size_t pages = (size >> 16) + 1, page = __builtin_wasm_memory_grow(0, pages);
		if (page == SIZE_MAX)
			sluice_panic("out of memory");
		if (m->end != (char *)(page << 16))
			m->next = m->floor = (char *)(page << 16);
		m->end = (char *)((page + pages) << 16);
	}
	char *p = m->next;
	m->next += size;
	return p;
}

static inline int32_t sluice_begin(void) { return sluice_memory.next = sluice_memory.floor, 0; }

static inline char *sluice_reserve(size_t size)
{
	struct sluice_memory *m = &sluice_memory;
	if (size > m->input_size) {
		m->next = m->floor; /* no call is running, so nothing is in use */
		m->input = sluice_alloc(m->input_size = size);
		m->floor = m->next;
	}
	return m->input;
}

static inline sluice_string sluice_input(int32_t from, int32_t length) { return (sluice_string){sluice_memory.input + from, (size_t)length}; }

static inline bool sluice_equal(sluice_string a, sluice_string b)
{
	size_t n = 0;
	while (a.size == b.size && n < a.size && a.data[n] == b.data[n])
		n++;
	return a.size == b.size && n == a.size;
}

/* Joins a path with an index: sluice_at(S("/targets/"), 2, S("/healthy")). */
static inline sluice_string sluice_at(sluice_string before, size_t index, sluice_string after)
{
	size_t n = 0;
	char *path = sluice_alloc(before.size + 20 + after.size), digits[20], *d = digits + sizeof digits;
	do
		*--d = (char)('0' + index % 10);
	while (index /= 10);
	for (size_t i = 0; i < before.size; i++)
		path[n++] = before.data[i];
	while (d < digits + sizeof digits)
		path[n++] = *d++;
	for (size_t i = 0; i < after.size; i++)
		path[n++] = after.data[i];
	return (sluice_string){path, n};
}

/* Values are read by JSON pointer, from the call's input or, with sluice_body_get, from the client's body. A value that does not
   exist is a string whose data is a null pointer. */
typedef int32_t sluice_getter(sluice_string path, char *dst, size_t capacity);

static inline sluice_string sluice_get(sluice_getter *get, sluice_string path)
{
	char *value = sluice_alloc(0);
	size_t capacity = (size_t)(sluice_memory.end - value);
	int32_t size = get(path, value, capacity);
	if (size < 0)
		return (sluice_string){0, 0};
	value = sluice_alloc((size_t)size);
	if ((size_t)size > capacity)
		get(path, value, (size_t)size);
	return (sluice_string){value, (size_t)size};
}

/* A value as JSON, as it is written; a string, unescaped; a string's inside, still escaped, for SLUICE_ENCODING_ESCAPED. */
static inline sluice_string sluice_raw(sluice_string path) { return sluice_get(sluice_input_get, path); }

static inline sluice_string sluice_decoded(sluice_string path) { return sluice_get(sluice_input_text, path); }

static inline sluice_string sluice_inside(sluice_string path)
{
	sluice_string s = sluice_raw(path);
	if (s.size < 2 || s.data[0] != '"')
		return (sluice_string){0, 0};
	return (sluice_string){s.data + 1, s.size - 2};
}

static inline bool sluice_true(sluice_string path) { return sluice_equal(sluice_raw(path), S("true")); }

/* A non-negative integer, or -1 if the value is anything else. */
static inline int64_t sluice_int(sluice_string path)
{
	sluice_string s = sluice_raw(path);
	int64_t value = s.size && s.size < 19 ? 0 : -1;
	for (size_t n = 0; n < s.size && value >= 0; n++)
		value = s.data[n] >= '0' && s.data[n] <= '9' ? 10 * value + s.data[n] - '0' : -1;
	return value;
}

/* Reads a number at the beginning of a text, such as 0.5 or -1e3. Returns its length, 0 if there is none. */
static inline size_t sluice_parse(sluice_string s, double *number)
{
	size_t n = s.size && s.data[0] == '-', digits = n;
	double value = 0, scale = 1;
	int exponent = 0, sign = 1;
	for (; n < s.size && s.data[n] >= '0' && s.data[n] <= '9'; n++)
		value = 10 * value + (s.data[n] - '0');
	if (n == digits)
		return 0;
	if (n + 1 < s.size && s.data[n] == '.' && s.data[n + 1] >= '0' && s.data[n + 1] <= '9')
		for (n++; n < s.size && s.data[n] >= '0' && s.data[n] <= '9'; n++)
			value = 10 * value + (s.data[n] - '0'), scale *= 10;
	if (n + 1 < s.size && (s.data[n] | 32) == 'e') {
		size_t e = n + 1 + (s.data[n + 1] == '-' || s.data[n + 1] == '+'), first = e;
		sign = s.data[n + 1] == '-' ? -1 : 1;
		for (; e < s.size && s.data[e] >= '0' && s.data[e] <= '9' && exponent < 400; e++)
			exponent = 10 * exponent + (s.data[e] - '0');
		n = e > first ? e : n;
	}
	for (value /= scale; exponent > 0; exponent--)
		value = sign > 0 ? value * 10 : value / 10;
	return *number = digits ? -value : value, n;
}

/* A number, or otherwise if the value is anything else. */
static inline double sluice_number(sluice_string path, double otherwise)
{
	sluice_string s = sluice_raw(path);
	double value;
	return s.size && sluice_parse(s, &value) == s.size ? value : otherwise;
}

/* Reads a number written as 16 hexadecimal digits: sluice_hash(S("/summary/affinity"), &hash). Returns false if there is none. */
static inline bool sluice_hash(sluice_string path, uint64_t *hash)
{
	sluice_string s = sluice_inside(path);
	uint64_t value = 0;
	for (size_t n = 0; n < s.size; n++) {
		char c = s.data[n];
		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
			return false;
		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (s.size != 16)
		return false;
	*hash = value;
	return true;
}

/* Reports whether an array of the input contains a string: sluice_has(S("/flags/"), S("tools")). */
static inline bool sluice_has(sluice_string array, sluice_string text)
{
	int32_t count = sluice_input_count((sluice_string){array.data, array.size - 1}); /* without the slash */
	for (int32_t i = 0; i < count; i++)
		if (sluice_equal(sluice_decoded(sluice_at(array, (size_t)i, S(""))), text))
			return true;
	return false;
}

/* Fails the request. Return its result from a function of the plugin. An empty message means the kind's default. */
static inline int32_t sluice_refuse(enum sluice_fail_kind kind, sluice_string member, sluice_string message)
{
	return sluice_fail((int32_t)kind, S(""), member, message, SLUICE_RETRY_AFTER_UNKNOWN), 0;
}

/* The kind of failure that an error's status means, for errors whose body is no more specific. */
static inline enum sluice_fail_kind sluice_status_kind(int32_t status)
{
	switch (status) {
	case 400: case 422: return SLUICE_FAIL_INVALID_REQUEST;
	case 401: case 403: return SLUICE_FAIL_AUTH;
	case 402: return SLUICE_FAIL_BILLING;
	case 404: return SLUICE_FAIL_MODEL_NOT_FOUND;
	case 409: return SLUICE_FAIL_CONFLICT;
	case 413: return SLUICE_FAIL_TOO_LARGE;
	case 429: return SLUICE_FAIL_RATE_LIMIT;
	case 408: case 504: return SLUICE_FAIL_TIMEOUT;
	case 503: return SLUICE_FAIL_OVERLOADED;
	}
	return SLUICE_FAIL_SERVER;
}

/* The length of a word in lower case if a text begins with it, ignoring the text's case; otherwise 0. */
static inline size_t sluice_begins(sluice_string text, const char *word)
{
	size_t n = 0;
	for (; word[n]; n++)
		if (n >= text.size || (text.data[n] >= 'A' && text.data[n] <= 'Z' ? text.data[n] | 32 : text.data[n]) != word[n])
			return 0;
	return n;
}

/* The finish reason that a provider's word for it means, ignoring case: end_turn, MAX_TOKENS, tool_use and others. Returns
   SLUICE_FINISH_STOP for a word that it does not know. */
static inline enum sluice_finish_reason sluice_finish_reason_of(sluice_string native)
{
	static const struct {
		const char *word;
		enum sluice_finish_reason reason;
	} known[] = {
		{"length", SLUICE_FINISH_LENGTH}, {"max_tokens", SLUICE_FINISH_LENGTH}, {"max_output_tokens", SLUICE_FINISH_LENGTH},
		{"model_length", SLUICE_FINISH_LENGTH}, {"model_context_window_exceeded", SLUICE_FINISH_LENGTH},
		{"tool_calls", SLUICE_FINISH_TOOL_CALLS}, {"tool_call", SLUICE_FINISH_TOOL_CALLS}, {"tool_use", SLUICE_FINISH_TOOL_CALLS},
		{"function_call", SLUICE_FINISH_TOOL_CALLS}, {"content_filter", SLUICE_FINISH_CONTENT_FILTER},
		{"content_filtered", SLUICE_FINISH_CONTENT_FILTER}, {"safety", SLUICE_FINISH_CONTENT_FILTER}, {"refusal", SLUICE_FINISH_CONTENT_FILTER},
		{"guardrail_intervened", SLUICE_FINISH_CONTENT_FILTER}, {"recitation", SLUICE_FINISH_CONTENT_FILTER},
		{"prohibited_content", SLUICE_FINISH_CONTENT_FILTER},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (native.size && sluice_begins(native, known[i].word) == native.size)
			return known[i].reason;
	return SLUICE_FINISH_STOP;
}

/* Reads a delay at the beginning of a text. */
static inline double sluice_read_delay(sluice_string text)
{
	static const struct {
		const char *word;
		double ms;
	} units[] = {
		{"milliseconds", 1}, {"millisecond", 1}, {"ms", 1}, {"minutes", 6e4}, {"minute", 6e4}, {"mins", 6e4}, {"min", 6e4}, {"m", 6e4},
		{"seconds", 1e3}, {"second", 1e3}, {"secs", 1e3}, {"sec", 1e3}, {"s", 1e3}, {"hours", 36e5}, {"hour", 36e5}, {"hrs", 36e5},
		{"h", 36e5}, {"days", 864e5}, {"day", 864e5}, {"d", 864e5},
	};
	double sum = -1, value;
	for (size_t n; text.size && text.data[0] != '-' && (n = sluice_parse(text, &value)) > 0;) {
		double unit = 0;
		for (text = (sluice_string){text.data + n, text.size - n}; text.size && *text.data == ' '; text.size--)
			text.data++;
		for (size_t i = 0, end; i < sizeof units / sizeof *units && unit == 0; i++)
			if ((end = sluice_begins(text, units[i].word)) && (end == text.size || (text.data[end] | 32) < 'a' || (text.data[end] | 32) > 'z'))
				unit = units[i].ms, text = (sluice_string){text.data + end, text.size - end};
		if (unit == 0)
			return sum < 0 ? value * 1e3 : sum; /* seconds, or a number after the delay */
		for (sum = (sum < 0 ? 0 : sum) + value * unit; text.size && *text.data == ' '; text.size--)
			text.data++;
	}
	return sum;
}

/* The delay in a provider's error message in milliseconds, rounded up, for sluice_fail: a number of seconds (20, 48.9) or a
   duration (250ms, 1m30.5s, 2 minutes), alone or after a phrase such as Please try again in. Without one, it is
   SLUICE_RETRY_AFTER_UNKNOWN. */
static inline int32_t sluice_retry_delay(sluice_string text)
{
	static const char *const phrases[] = {"try again in ", "retry in ", "retry after ", "retrying in ", "reset in ", "wait "};
	while (text.size && *text.data == ' ')
		text = (sluice_string){text.data + 1, text.size - 1};
	double ms = sluice_read_delay(text);
	for (size_t p = 0; p < sizeof phrases / sizeof *phrases && ms < 0; p++)
		for (size_t at = 0, n; at < text.size; at++)
			if ((n = sluice_begins((sluice_string){text.data + at, text.size - at}, phrases[p]))) {
				ms = sluice_read_delay((sluice_string){text.data + at + n, text.size - at - n});
				break;
			}
	ms = ms > 6048e5 ? 6048e5 : ms;
	int32_t whole = (int32_t)ms;
	return ms <= 0 ? SLUICE_RETRY_AFTER_UNKNOWN : whole + (ms - whole > 1e-6);
}

/* Fails the plugin, with this line in the gateway's log. Return its result from a function of the plugin. */
static inline int32_t sluice_reject(sluice_string why) { return sluice_log(SLUICE_LOG_ERROR, why), 1; }

/* An instance serves one plugin. Each use of the plugin in the configuration is a binding, numbered from 0. */
enum { SLUICE_BINDINGS = 256 };

#define SLUICE_MODULE(configure) \
	struct sluice_memory sluice_memory; \
	SLUICE_EXPORT(sluice_abi_v1) int32_t sluice_export_version(void) { return SLUICE_MINOR; } \
	SLUICE_EXPORT(sluice_buffer) char *sluice_export_buffer(int32_t size) { return sluice_reserve((size_t)size); } \
	SLUICE_EXPORT(sluice_configure) int32_t sluice_export_configure(int32_t binding, int32_t length) \
	{ \
		(void)length; \
		sluice_begin(); \
		if (binding < 0 || binding >= SLUICE_BINDINGS) \
			return sluice_reject(S("the plugin is used too often in the configuration")); \
		int32_t status = configure(binding); \
		sluice_memory.floor = sluice_memory.next; \
		return status; \
	}

/* For providers and filters without settings. */
static inline int32_t sluice_no_settings(int32_t binding) { return (void)binding, 0; }

/* Makes functions the module's plugin. They return 0, or 1 if the plugin failed. Optional exports, such as provider_end, are
   functions of the plugin with SLUICE_EXPORT(provider_end). */
#define SLUICE_PROVIDER(configure, request, event, response) \
	SLUICE_MODULE(configure) \
	SLUICE_EXPORT(provider_request) int32_t sluice_export_request(int32_t binding, int32_t length) \
	{ \
		return sluice_begin() + request(binding, sluice_input(0, length)); \
	} \
	SLUICE_EXPORT(provider_event) int32_t sluice_export_event(int32_t binding, int32_t kind, int32_t name, int32_t data) \
	{ \
		return sluice_begin() + event(binding, kind, sluice_input(0, name), sluice_input(name, data)); \
	} \
	SLUICE_EXPORT(provider_response) int32_t sluice_export_response(int32_t binding, int32_t status, int32_t length) \
	{ \
		return sluice_begin() + response(binding, status, sluice_input(0, length)); \
	} \
	_Static_assert(1, "takes a semicolon")

#define SLUICE_ROUTER(configure, choose) \
	SLUICE_MODULE(configure) \
	SLUICE_EXPORT(router_choose) int32_t sluice_export_choose(int32_t binding, int32_t length) \
	{ \
		(void)length; \
		return sluice_begin() + choose(binding); \
	} \
	_Static_assert(1, "takes a semicolon")

/* A text that is passed to a filter, or a piece of one. held is the number of bytes at its beginning that the filter held in the
   preceding call. */
typedef struct {
	sluice_string bytes;
	int32_t what, choice, flags;
	size_t held;
} sluice_text_input;

#define SLUICE_FILTER(configure, text) \
	SLUICE_MODULE(configure) \
	SLUICE_EXPORT(filter_text) int32_t sluice_export_text(int32_t binding, int32_t what, int32_t choice, int32_t flags, int32_t held, int32_t length) \
	{ \
		sluice_text_input t = {sluice_input(0, length), what, choice, flags, (size_t)held}; \
		return sluice_begin() + text(binding, &t); \
	} \
	_Static_assert(1, "takes a semicolon")

#endif
