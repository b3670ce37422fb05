// The exports of a provider plugin. The plugin's file re-exports them: export * from "…/provider".

import { Forms } from "./abi";
import { Event, Provider, Response, input, plugins } from "./index";
import { bytes, end, text } from "./module";

export { sluice_abi_v1, sluice_buffer, sluice_collect, sluice_configure } from "./module";

function plugin(binding: i32): Provider {
  return plugins[binding] as Provider;
}

export function sluice_forms(binding: i32): Forms {
  return plugin(binding).forms();
}

export function provider_request(binding: i32, length: i32): i32 {
  plugin(binding).request(input());
  return end(length);
}

export function provider_response(binding: i32, status: i32, length: i32): i32 {
  plugin(binding).response(new Response(status, bytes(0, length)));
  return end(length);
}

export function provider_event(binding: i32, kind: i32, name: i32, data: i32): i32 {
  plugin(binding).event(new Event(kind, text(0, name), bytes(name, data)));
  return end(name + data);
}

export function provider_end(binding: i32): i32 {
  plugin(binding).end();
  return end(0);
}

export function provider_list(binding: i32, cursor: i32): i32 {
  plugin(binding).list(text(0, cursor));
  return end(cursor);
}

export function provider_models(binding: i32, status: i32, length: i32): i32 {
  plugin(binding).models(new Response(status, bytes(0, length)));
  return end(length);
}
