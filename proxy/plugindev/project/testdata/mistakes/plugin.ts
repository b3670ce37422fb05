// A provider that makes the mistake that the prompt or the provider's response names.

import {
  DONE_NOW, Dialect, Document, Encoding, FinishReason, LogLevel, MAX_STATE, Provider, Response, Scope, Status, UsageKind, answer, body, bodySet,
  candidate, done, extra, finish, log, refuse, register, requestHeader, requestPath, requestWrite, stateSet, text, toolArguments, toolCall, usage,
} from "./sdk/assemblyscript";

export * from "./sdk/assemblyscript/provider";

function recurse(n: i32): i32 {
  return n < 0 ? 0 : recurse(n + 1) + n;
}

class Mistaken extends Provider {
  configure(settings: Document): string {
    const name = settings.text("/mistake");
    if (name != null && name == "panic") throw new Error("in configure");
    return name != null && name == "error" ? "no such mistake" : "";
  }

  request(_summary: Document): void {
    const name = body().text("/messages/0/content")!;
    const list = [1, 2];
    if (name == "panic") throw new Error("as the prompt says");
    if (name == "assertion") assert(name.length == 0, "a short prompt");
    if (name == "index") log(LogLevel.Info, list[name.length].toString());
    if (name == "null") log(LogLevel.Info, body().text("/missing")!);
    if (name == "loop") while (list.length > 0) {}
    if (name == "recursion") log(LogLevel.Info, recurse(1).toString());
    if (name == "memory") {
      const all: ArrayBuffer[] = [];
      while (true) all.push(new ArrayBuffer(1 << 20));
    }
    if (name == "refuse") return refuse("messages", "Not this prompt.");
    if (name == "nothing") return;
    if (name == "path") {
      requestPath("/other");
      return;
    }
    if (name == "path in a check") assert(requestPath("/other") == Status.OK, "the configuration does not allow /other");
    requestPath("/say");
    if (name == "second path") requestPath("/other");
    if (name == "reserved header") requestHeader("Authorization", "Bearer x");
    if (name == "header") requestHeader("x-other", "1");
    if (name == "header with a line feed") requestHeader("x-own", "a\nb");
    if (name == "edits and writes") {
      bodySet("/model", '"m"');
      requestWrite("{}");
    }
    if (name == "body is not JSON") requestWrite('{"a":');
    if (name == "value is not JSON") bodySet("/model", "m");
    if (name == "sets in nothing") bodySet("/a/b", "1");
    if (name == "unknown framing") answer(99, Dialect.Translated, "");
    if (name == "import of another call") candidate(0);
    if (name == "request and response") {
      text(0, Encoding.UTF8, "Hi");
      done(DONE_NOW);
    }
    if (name == "log") log(LogLevel.Warn, "logged");
  }

  response(response: Response): void {
    const name = response.json.text("/mistake")!;
    let says = true;
    let ends = true;
    let isDone = true;
    if (name == "panic") throw new Error("as the response says");
    if (name == "nothing") return;
    if (name == "endless output") while (true) text(0, Encoding.UTF8, "Hi");
    if (name == "text after finish") {
      finish(0, FinishReason.Stop, "");
      ends = false;
    }
    if (name == "arguments without a call") toolArguments(0, 1, Encoding.UTF8, "{}");
    if (name == "arguments are not JSON") {
      toolCall(0, 1, "c", "f");
      toolArguments(0, 1, Encoding.UTF8, "{");
      says = false;
    }
    if (name == "reserved member") extra(Scope.Answer, 0, 0, "choices", "[]");
    if (name == "large state") stateSet(" ".repeat(MAX_STATE + 1));
    if (name == "not UTF-8") text(0, Encoding.UTF8, String.fromCharCode(0xd800));
    if (name == "unescaped") text(0, Encoding.Escaped, 'a"b');
    if (name == "unknown encoding") text(0, 7, "Hi");
    if (name == "unknown reason") {
      finish(0, 99, "");
      ends = false;
    }
    if (name == "negative usage") usage(UsageKind.Prompt, -1);
    if (name == "choice out of range") text(-1, Encoding.UTF8, "Hi");
    if (name == "no finish") ends = false;
    if (name == "no done") ends = isDone = false;
    if (says) text(0, Encoding.UTF8, "Hi");
    if (ends) finish(0, FinishReason.Stop, "");
    if (isDone) done(DONE_NOW);
    if (name == "text after done") text(0, Encoding.UTF8, "Hi");
    if (name == "usage after done") usage(UsageKind.Prompt, 5);
  }
}

register(() => new Mistaken());
