// A provider plugin for a simple API: POST /say accepts a chat completions request with "turns" instead of "messages",
// and streams events: {"text":"…"} for each piece of text, and {"tokens":…} at the end.

import {
  DONE_NOW, Dialect, Document, Encoding, Event, FailKind, FinishReason, Framing, Provider, Response, Status, UsageKind, answer, bodyRename,
  bodySet, done, failWith, finish, refuse, register, requestPath, text, usage,
} from "../../../sdk/assemblyscript";

export * from "../../../sdk/assemblyscript/provider";

// Translates requests and responses. It needs no state.
class Say extends Provider {
  // Builds the provider's request from the client's.
  request(summary: Document): void {
    if (summary.has("/flags", "tools")) return refuse("tools", "The upstream has no tools.");
    assert(requestPath("/say") == Status.OK, "the configuration does not allow /say");
    answer(Framing.SSE | Framing.EventsAreJSON, Dialect.Translated, "");
    bodySet("/model", summary.raw("/target")!);
    bodyRename("/messages", "turns");
  }

  // Reports the content of an event in the provider's stream.
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

  // Interprets a response without a stream, which is always an error in this API.
  response(response: Response): void {
    failWith(response.status == 429 ? FailKind.RateLimit : FailKind.Server);
  }
}

register(() => new Say());
