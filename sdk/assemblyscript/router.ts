// The exports of a router plugin: export * from "…/router" in the plugin's file.

import { Router, input, plugins } from "./index";
import { end } from "./module";

export { sluice_abi_v1, sluice_buffer, sluice_collect, sluice_configure } from "./module";

export function router_choose(binding: i32, length: i32): i32 {
  (plugins[binding] as Router).choose(input());
  return end(length);
}
