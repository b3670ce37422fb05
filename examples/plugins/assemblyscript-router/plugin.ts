// A routing policy: short requests go to the targets in the configured order, long ones in reverse order, so that the configuration
// lists the model with the large context last.
//
// Its setting is long, the minimum size of a long request in bytes. Unhealthy targets are tried last, whatever the size.

import { Document, Router, candidate, explain, register } from "../../../sdk/assemblyscript";

export * from "../../../sdk/assemblyscript/router";

class ByLength extends Router {
  private long: i64 = 0;

  configure(settings: Document): string {
    this.long = settings.int("/long", 0);
    return this.long > 0 ? "" : "long is missing: want the minimum size of a long request, in bytes";
  }

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
