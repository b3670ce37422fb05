// A provider plugin for an upstream with an API of its own: POST /say takes a chat completions request with "turns" in place of
// "messages", and responds with events: {"text":"…"} for each piece, {"tokens":…} at the end.

import {
  DONE_NOW, Dialect, Document, Encoding, Event, FailKind, FinishReason, Framing, Provider, Response, Status, UsageKind, answer, bodyRename,
  bodySet, done, failWith, finish, refuse, register, requestPath, text, usage,
} from "../../../sdk/assemblyscript";

export * from "../../../sdk/assemblyscript/provider";

class Say extends Provider {
  request(summary: Document): void {
    if (summary.has("/flags", "tools")) return refuse("tools", "The upstream has no tools.");
    assert(requestPath("/say") == Status.OK, "the configuration does not allow /say");
    answer(Framing.SSE | Framing.EventsAreJSON, Dialect.Translated, "");
    bodySet("/model", summary.raw("/target")!);
    bodyRename("/messages", "turns");
  }

  event(event: Event): void {
    const piece = event.json.inside("/text");
    if (piece != null) text(0, Encoding.Escaped, piece);
    const tokens = event.json.int("/tokens");
    if (tokens >= 0) {
      usage(UsageKind.Completion, tokens);
      finish(0, FinishReason.Stop, "");
      done(DONE_NOW);
    }
  }

  response(response: Response): void {
    failWith(response.status == 429 ? FailKind.RateLimit : FailKind.Server);
  }
}

register(() => new Say());
