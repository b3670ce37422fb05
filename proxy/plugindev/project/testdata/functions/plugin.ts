// A provider that reports what functions of the kit return for each message.

import {
  DONE_NOW, Document, Encoding, FinishReason, Provider, body, done, finish, finishReason, register, retryDelay, statusKind, text,
} from "./sdk/assemblyscript";

export * from "./sdk/assemblyscript/provider";

class Functions extends Provider {
  request(_summary: Document): void {
    const request = body();
    let out = `${request.count("/messages")} ${request.count("/model")} ${<i32>(request.float("/temperature", 0) * 1000)}`;
    out += ` ${<i32>statusKind(<i32>request.int("/max_tokens"))}`;
    const messages = request.items("/messages");
    for (let i = 0; i < messages.length; i++) {
      const content = messages[i].text("/content")!;
      out += `\n${messages[i].text("/role")!} ${retryDelay(content)} ${<i32>finishReason(content)}`;
    }
    text(0, Encoding.UTF8, out);
    finish(0, FinishReason.Stop, "");
    done(DONE_NOW);
  }
}

register(() => new Functions());
