// A filter plugin that replaces words with ***, in requests and responses, even if a stream splits a word. The option
// words lists them. If several words match at the same position, the longest is replaced.

import { Document, Filter, Status, Text, hold, register, replace } from "../../../sdk/assemblyscript";

export * from "../../../sdk/assemblyscript/filter";

// An instance of the filter, with the words in its options.
class Mask extends Filter {
  private words: Uint8Array[] = [];

  // Reads the options, and rejects invalid ones.
  configure(options: Document): string {
    const items = options.items("/words");
    if (items.length == 0 || items.length > 64) return "words is missing: want an array of 1 to 64 words";
    for (let i = 0; i < items.length; i++) {
      const word = items[i].text("");
      const bytes = Uint8Array.wrap(String.UTF8.encode(word != null ? word : ""));
      if (bytes.length == 0 || bytes.length > 256) return "words: want words of 1 to 256 bytes";
      this.words.push(bytes);
    }
    return "";
  }

  // Masks the words in a text, or in the next piece of a stream's text.
  text(text: Text): void {
    const bytes = text.bytes;
    let at = 0;
    while (at < bytes.length) {
      const rest = bytes.length - at;
      let longest = 0;
      for (let i = 0; i < this.words.length; i++) {
        const word = this.words[i];
        let same = 0;
        while (same < rest && same < word.length && bytes[at + same] == word[same]) same++;
        if (same == word.length) {
          longest = max(longest, same);
        } else if (same == rest && !text.complete) {
          assert(hold(rest) == Status.OK); // the next piece may complete the word
          return;
        }
      }
      if (longest > 0) assert(replace(at, at + longest, "***") == Status.OK);
      at += max(longest, 1);
    }
  }
}

register(() => new Mask());
