// The kit for plugins of the Sluice gateway in AssemblyScript. A plugin is a class that extends Provider, Router or Filter. Its file
// registers the class and re-exports the exports of its kind: README.md shows a complete one.
//
// A plugin works by calling the functions in abi.ts, which sdk/abi/README.md specifies. The gateway may run each call on another
// instance, so a plugin must not keep state between calls, except what it derives from its settings. A call fails if the plugin throws
// or an assertion fails; the gateway's log has the line.

export * from "./abi";

import { EventKind, FailKind, FinishReason, Forms, RETRY_AFTER_UNKNOWN, bodyCount, bodyGet, fail, inputCount, inputGet, inputText, responseHeader, stateGet, TextFlags, What } from "./abi";

/** A plugin, configured for one use in the configuration. */
export class Plugin {
  /** Reads the settings. A non-empty result rejects them; the operator sees it. */
  configure(_settings: Document): string {
    return "";
  }
}

/** Translates between a client API, usually chat completions, and an upstream's API. */
export class Provider extends Plugin {
  /** The client APIs that the upstream accepts itself: their requests arrive as the client wrote them. */
  forms(): Forms {
    return Forms.Chat;
  }
  /** Builds the upstream request. The input is the summary: target, model, flags, options … */
  request(_summary: Document): void {}
  /** Reads an event of a streamed response. */
  event(_event: Event): void {}
  /** Reads a complete body: a non-streaming response, or an error. */
  response(_response: Response): void {}
  /** Called when the upstream's body has ended cleanly. */
  end(): void {}
  /** Builds the request for a page of the upstream's model list. There is no list if it sets no path. */
  list(_cursor: string): void {}
  /** Reads a page of the model list. */
  models(_page: Response): void {}
}

/** Decides in which order the gateway tries the targets of a request. */
export class Router extends Plugin {
  /** Adds the candidates. The input has the members summary and targets. */
  choose(_input: Document): void {}
}

/** Sees the texts of requests and responses, and may replace parts of them or reject them. */
export class Filter extends Plugin {
  /** Called once per request, before its texts. The input has the member summary. */
  request(_input: Document): void {}
  /** Filters a text, or a piece of one. */
  text(_text: Text): void {}
}

/** An event of a streamed response. */
export class Event {
  json: Document = input();
  constructor(public kind: EventKind, public name: string, public data: Uint8Array) {}
}

/** A complete body: a response, an error or a page of a model list. */
export class Response {
  json: Document = input();
  constructor(public status: i32, public body: Uint8Array) {}
}

/** A text that is passed to a filter, or a piece of one, in UTF-8. The filter held its first held bytes in the preceding call. */
export class Text {
  constructor(public bytes: Uint8Array, public what: What, public choice: i32, public flags: TextFlags, public held: i32) {}

  /** Whether this is the end of the text. */
  get complete(): bool {
    return (this.flags & TextFlags.Complete) != 0;
  }
}

let make: (() => Plugin) | null = null;

/** The configured plugins, by binding. */
export const plugins: (Plugin | null)[] = [];

/** Makes a class the module's plugin: register(() => new Echo()). The function is called for each use of the plugin. */
export function register(plugin: () => Plugin): void {
  make = plugin;
}

/** Configures the plugin of a binding with the call's input. Returns why the settings are rejected, or an empty string. */
export function configure(binding: i32): string {
  const plugin = make!();
  const wrong = plugin.configure(input());
  while (plugins.length <= binding) plugins.push(null);
  plugins[binding] = plugin;
  return wrong;
}

/** Reports that the request cannot be completed. An empty message means the kind's default. Return after calling it. */
export function failWith(kind: FailKind, message: string = ""): void {
  fail(kind, "", "", message, RETRY_AFTER_UNKNOWN);
}

/** Reports that the provider does not support a member of the request. Return after calling it. */
export function refuse(member: string, message: string): void {
  fail(FailKind.Unsupported, "", member, message, RETRY_AFTER_UNKNOWN);
}

/** Returns the kind of failure that an error's status means, for errors whose body is no more specific. */
export function statusKind(status: i32): FailKind {
  switch (status) {
    case 400: case 422: return FailKind.InvalidRequest;
    case 401: case 403: return FailKind.Auth;
    case 402: return FailKind.Billing;
    case 404: return FailKind.ModelNotFound;
    case 409: return FailKind.Conflict;
    case 413: return FailKind.TooLarge;
    case 429: return FailKind.RateLimit;
    case 408: case 504: return FailKind.Timeout;
    case 503: return FailKind.Overloaded;
  }
  return FailKind.Server;
}

/** Returns the finish reason that a provider's word for it means, ignoring case: "end_turn", "MAX_TOKENS", "tool_use" and others.
 * For a word that it does not know, it returns FinishReason.Stop. */
export function finishReason(native: string): FinishReason {
  const word = ` ${native.toLowerCase()} `;
  if (" length max_tokens max_output_tokens model_length model_context_window_exceeded ".includes(word)) return FinishReason.Length;
  if (" tool_calls tool_call tool_use function_call ".includes(word)) return FinishReason.ToolCalls;
  if (" content_filter content_filtered safety refusal guardrail_intervened recitation prohibited_content ".includes(word)) return FinishReason.ContentFilter;
  return FinishReason.Stop;
}

/** Returns the delay in a provider's error message in milliseconds, rounded up, for fail: a number of seconds ("20", "48.9") or a
 * duration ("250ms", "1m30.5s", "2 minutes"), alone or after a phrase such as "Please try again in"; otherwise RETRY_AFTER_UNKNOWN. */
export function retryDelay(text: string): i32 {
  text = text.trim().toLowerCase();
  let ms = readDelay(text);
  const phrases = ["try again in ", "retry in ", "retry after ", "retrying in ", "reset in ", "wait "];
  for (let i = 0; i < phrases.length && ms < 0; i++) {
    const at = text.indexOf(phrases[i]);
    if (at >= 0) ms = readDelay(text.slice(at + phrases[i].length));
  }
  return ms > 0 ? <i32>Math.ceil(Math.min(ms, 6048e5) - 1e-6) : RETRY_AFTER_UNKNOWN;
}

/** Reads a delay at the beginning of a text, in milliseconds. It is negative if there is none. */
function readDelay(text: string): f64 {
  let sum: f64 = -1;
  let at = 0;
  while (true) {
    const start = at;
    while (isDigit(text, at) || (at > start && text.charAt(at) == "." && isDigit(text, at + 1) && !text.slice(start, at).includes("."))) at++;
    if (at == start) return sum;
    const value = F64.parseFloat(text.slice(start, at));
    while (text.charAt(at) == " ") at++;
    const from = at;
    while (at < text.length && text.charCodeAt(at) >= 0x61 && text.charCodeAt(at) <= 0x7a) at++;
    const unit = delayUnit(text.slice(from, at));
    if (unit == 0) return sum < 0 ? value * 1000 : sum; // seconds, or a number after the delay
    sum = Math.max(sum, 0) + value * unit;
    while (text.charAt(at) == " ") at++;
  }
}

function isDigit(text: string, at: i32): bool {
  return at < text.length && text.charCodeAt(at) >= 0x30 && text.charCodeAt(at) <= 0x39;
}

/** Returns the milliseconds of a unit of time, 0 for any other word. */
function delayUnit(word: string): f64 {
  const name = ` ${word} `;
  if (" milliseconds millisecond ms ".includes(name)) return 1;
  if (" seconds second secs sec s ".includes(name)) return 1000;
  if (" minutes minute mins min m ".includes(name)) return 60000;
  if (" hours hour hrs h ".includes(name)) return 3600000;
  return " days day d ".includes(name) ? 86400000 : 0;
}

type Getter = (path: string, dst: usize, capacity: i32) => i32;

/** Copies a value of unknown size out of the gateway, or returns null if there is none. */
function fetch(get: Getter, path: string): string | null {
  let value = new ArrayBuffer(256);
  let size = get(path, changetype<usize>(value), value.byteLength);
  if (size > value.byteLength) {
    value = new ArrayBuffer(size);
    size = get(path, changetype<usize>(value), size);
  }
  return size < 0 ? null : String.UTF8.decodeUnsafe(changetype<usize>(value), size);
}

/** A JSON document, or a value within it, that the gateway parses. Paths are JSON pointers such as "/messages/0/role". */
export class Document {
  constructor(private get: Getter, private decode: Getter | null, private counter: (path: string) => i32, private prefix: string) {}

  /** Returns a value as JSON, as it is written in the document. */
  raw(path: string): string | null {
    return fetch(this.get, this.prefix + path);
  }
  /** Returns a string without its quotes, still escaped, for Encoding.Escaped. */
  inside(path: string): string | null {
    const raw = this.raw(path);
    return raw != null && raw.startsWith('"') ? raw.slice(1, -1) : null;
  }
  /** Returns a string, unescaped. */
  text(path: string): string | null {
    const decode = this.decode;
    if (decode != null) return fetch(decode, this.prefix + path);
    const inside = this.inside(path);
    return inside != null ? unescape(inside) : null;
  }
  /** Returns an integer, or otherwise if the value is anything else. */
  int(path: string, otherwise: i64 = -1): i64 {
    const raw = this.raw(path);
    if (raw == null || raw.length == 0 || raw.length > 18) return otherwise;
    for (let i = raw.charCodeAt(0) == 0x2d ? 1 : 0; i < raw.length; i++) {
      if (raw.charCodeAt(i) < 0x30 || raw.charCodeAt(i) > 0x39) return otherwise;
    }
    return I64.parseInt(raw);
  }
  /** Returns a number, or otherwise if the value is anything else. */
  float(path: string, otherwise: f64 = NaN): f64 {
    const raw = this.raw(path);
    if (raw == null || raw.length == 0 || raw.charCodeAt(0) > 0x39) return otherwise;
    const value = F64.parseFloat(raw);
    return isNaN(value) ? otherwise : value;
  }
  /** Returns a number written as 16 hexadecimal digits, such as "/summary/affinity"; 0 if there is none, which exists tells apart. */
  hash(path: string): u64 {
    const digits = this.inside(path);
    return digits != null && digits.length == 16 ? U64.parseInt(digits, 16) : 0;
  }
  isTrue(path: string): bool {
    return this.raw(path) == "true";
  }
  exists(path: string): bool {
    return this.get(this.prefix + path, 0, 0) >= 0;
  }
  /** Returns the elements of an array. */
  items(path: string): Document[] {
    const list: Document[] = [];
    const count = this.count(path);
    for (let i = 0; i < count; i++) {
      list.push(new Document(this.get, this.decode, this.counter, `${this.prefix}${path}/${i}`));
    }
    return list;
  }
  /** Returns the number of an array's elements or an object's members, 0 for any other value. */
  count(path: string): i32 {
    return max(this.counter(this.prefix + path), 0);
  }
  /** Reports whether an array contains this string. */
  has(path: string, text: string): bool {
    const items = this.items(path);
    for (let i = 0; i < items.length; i++) {
      if (items[i].text("") == text) return true;
    }
    return false;
  }
}

/** Returns the document of the call's input. */
export function input(): Document {
  return new Document(inputGet, inputText, inputCount, "");
}

/** Returns the client's body. */
export function body(): Document {
  return new Document(bodyGet, null, bodyCount, "");
}

/** Returns the state that an earlier call of the attempt stored. */
export function state(): string {
  const s = fetch((_path: string, dst: usize, capacity: i32) => stateGet(dst, capacity), "");
  return s != null ? s : "";
}

/** Returns a header of the upstream's response, or null if there is none. */
export function header(name: string): string | null {
  return fetch(responseHeader, name);
}

/** Returns the text of a string's inside, that is, unescapes it. */
export function unescape(inside: string): string {
  let out = "";
  let from = 0;
  for (let at = inside.indexOf("\\"); at >= 0; at = inside.indexOf("\\", from)) {
    out += inside.slice(from, at);
    const c = inside.charAt(at + 1);
    from = at + 2;
    if (c == "u") {
      out += String.fromCharCode(<i32>I32.parseInt(inside.substr(from, 4), 16));
      from += 4;
    } else {
      const known = "bfnrt".indexOf(c);
      out += known >= 0 && c.length > 0 ? "\b\f\n\r\t".charAt(known) : c;
    }
  }
  return out + inside.slice(from);
}

/** Returns text as a JSON string with quotes. */
export function quote(text: string): string {
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c == 0x22 || c == 0x5c) out += "\\";
    out += c < 0x20 ? "\\u00" + c.toString(16).padStart(2, "0") : text.charAt(i);
  }
  return out + '"';
}
