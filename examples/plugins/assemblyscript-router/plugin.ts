// A routing policy: short requests try the targets in the configured order, long ones in reverse order. So the model
// with the largest context must be the last target.
//
// The setting long is the minimum size of a long request in bytes. Unhealthy targets are always tried last.

import { Document, Router, candidate, explain, register } from "../../../sdk/assemblyscript";

export * from "../../../sdk/assemblyscript/router";

// An instance of the router, with its setting.
class ByLength extends Router {
  private long: i64 = 0;

  // Reads the settings, and rejects invalid ones.
  configure(settings: Document): string {
    this.long = settings.int("/long", 0);
    return this.long > 0 ? "" : "long is missing: want the minimum size of a long request, in bytes";
  }

  // Makes each target a candidate, best first.
  choose(input: Document): void {
    const long = input.int("/summary/body") >= this.long;
    const targets = input.items("/targets");
    if (long) targets.reverse();
    for (let healthy = 1; healthy >= 0; healthy--) {
      for (let i = 0; i < targets.length; i++) {
        if (<i32>targets[i].isTrue("/healthy") == healthy) candidate(<i32>targets[i].int("/index"));
      }
    }
    explain(long ? "long" : "short");
  }
}

register(() => new ByLength());
