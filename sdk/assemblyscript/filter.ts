// The exports of a filter plugin. The plugin's file re-exports them: export * from "…/filter".

import { Filter, Text, input, plugins } from "./index";
import { bytes, end } from "./module";

export { sluice_abi_v1, sluice_buffer, sluice_collect, sluice_configure } from "./module";

export function filter_request(binding: i32, length: i32): i32 {
  (plugins[binding] as Filter).request(input());
  return end(length);
}

export function filter_text(binding: i32, what: i32, choice: i32, flags: i32, held: i32, length: i32): i32 {
  (plugins[binding] as Filter).text(new Text(bytes(0, length), what, choice, flags, held));
  return end(length);
}
