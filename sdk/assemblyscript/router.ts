// The exports of a router plugin. The plugin's file re-exports them: export * from "…/router".

import { Router, input, plugins } from "./index";
import { end } from "./module";

export { sluice_abi_v1, sluice_buffer, sluice_collect, sluice_configure } from "./module";

export function router_choose(binding: i32, length: i32): i32 {
  (plugins[binding] as Router).choose(input());
  return end(length);
}
