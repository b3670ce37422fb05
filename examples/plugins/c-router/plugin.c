/* A routing policy: short requests go to the targets in the configured order, long ones in reverse order, so that the configuration
   lists the model with the large context last.

   Its setting is long, the minimum size of a long request in bytes. Unhealthy targets are tried last, whatever the size. */
#include "sluice.h"

static int64_t long_requests[SLUICE_BINDINGS];

static int32_t configure(int32_t binding)
{
	int64_t size = sluice_int(S("/long"));
	if (size < 1)
		return sluice_reject(S("long is missing: want the minimum size of a long request, in bytes"));
	long_requests[binding] = size;
	return 0;
}

static int32_t choose(int32_t binding)
{
	bool is_long = sluice_int(S("/summary/body")) >= long_requests[binding];
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
