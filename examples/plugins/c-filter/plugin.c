/* A filter plugin that replaces words with ***, in requests and responses, even if a stream splits a word. The option
   words lists them. If several words match at the same position, the longest is replaced. */
#include "sluice.h"

enum { MAX_WORDS = 64, MAX_WORD = 256 };

static struct {
	int32_t count;
	sluice_string *words;
} masks[SLUICE_BINDINGS];

static int32_t configure(int32_t binding)
{
	int32_t count = sluice_input_count(S("/words"));
	if (count < 1 || count > MAX_WORDS)
		return sluice_reject(S("words is missing: want an array of 1 to 64 words"));
	sluice_string *words = (sluice_string *)(void *)sluice_alloc((size_t)count * sizeof *words);
	for (int32_t i = 0; i < count; i++) {
		words[i] = sluice_decoded(sluice_at(S("/words/"), (size_t)i, S("")));
		if (!words[i].size || words[i].size > MAX_WORD)
			return sluice_reject(S("words: want words of 1 to 256 bytes"));
	}
	masks[binding].count = count;
	masks[binding].words = words;
	return 0;
}

/* Returns the length of the common prefix of two strings. */
static size_t common_prefix(sluice_string a, sluice_string b)
{
	size_t n = 0;
	while (n < a.size && n < b.size && a.data[n] == b.data[n])
		n++;
	return n;
}

static int32_t text(int32_t binding, const sluice_text_input *t)
{
	for (size_t at = 0; at < t->bytes.size;) {
		sluice_string rest = {t->bytes.data + at, t->bytes.size - at};
		size_t longest = 0;
		for (int32_t i = 0; i < masks[binding].count; i++) {
			sluice_string word = masks[binding].words[i];
			size_t same = common_prefix(rest, word);
			if (same == word.size)
				longest = same > longest ? same : longest;
			else if (same == rest.size && !(t->flags & SLUICE_TEXT_COMPLETE)) {
				SLUICE_TRY(sluice_hold((int32_t)same)); /* the next piece may complete the word */
				return 0;
			}
		}
		if (longest)
			SLUICE_TRY(sluice_replace((int32_t)at, (int32_t)(at + longest), S("***")));
		at += longest ? longest : 1;
	}
	return 0;
}

SLUICE_FILTER(configure, text);
