/* A routing policy: short requests try the targets in the configured order, long ones in reverse order. So the model
   with the largest context must be the last target.

   The setting long is the minimum size of a long request in bytes. Unhealthy targets are always tried last. */
#include "sluice.h"

static int64_t min_long[SLUICE_BINDINGS]; /* the setting, by instance of the router */

/* Reads the settings, and rejects invalid ones. */
static int32_t configure(int32_t binding)
{
	int64_t size = sluice_int(S("/long"));
	if (size < 1)
		return sluice_reject(S("long is missing: want the minimum size of a long request, in bytes"));
	min_long[binding] = size;
	return 0;
}

/* Makes each target a candidate, best first. */
static int32_t choose(int32_t binding)
{
	bool is_long = sluice_int(S("/summary/body")) >= min_long[binding];
	int32_t count = sluice_input_count(S("/targets"));
	for (int healthy = 1; healthy >= 0; healthy--)
		for (int32_t i = 0; i < count; i++) {
			int32_t target = is_long ? count - 1 - i : i;
			if (sluice_true(sluice_at(S("/targets/"), (size_t)target, S("/healthy"))) == healthy)
				sluice_candidate(target);
		}
	sluice_explain(is_long ? S("long") : S("short"));
	return 0;
}

SLUICE_ROUTER(configure, choose);
