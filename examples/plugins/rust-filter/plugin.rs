//! A filter plugin that replaces words with ***, in requests and responses, even if a stream splits a word. The option
//! words lists them. If several words match at the same position, the longest is replaced.
#![deny(unsafe_code)]

use sluice::{host, Document, Filter, Input, Result, Text};

/// An instance of the filter, with the words in its options.
struct Mask {
    words: Vec<String>,
}

sluice::export!(filter: Mask);

impl Filter for Mask {
    /// Reads the options, and rejects invalid ones.
    fn configure(options: &Input) -> Result<Mask> {
        let items = options.items("/words");
        let words: Option<Vec<String>> = items.iter().map(|item| item.text("")).collect();
        match words {
            Some(words) if words.iter().any(|w| w.is_empty() || w.len() > 256) => {
                Err("words: want words of 1 to 256 bytes".into())
            }
            Some(words) if (1..=64).contains(&words.len()) => Ok(Mask { words }),
            _ => Err("words is missing: want an array of 1 to 64 words".into()),
        }
    }

    /// Masks the words in a text, or in the next piece of a stream's text.
    fn text(&self, text: &Text) -> Result {
        let bytes = text.text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let (rest, mut longest) = (&bytes[at..], 0);
            for word in &self.words {
                if rest.starts_with(word.as_bytes()) {
                    longest = longest.max(word.len());
                } else if !text.complete() && word.as_bytes().starts_with(rest) {
                    // The next piece may complete the word.
                    return host::hold(rest.len() as i32).ok();
                }
            }
            if longest > 0 {
                host::replace(at as i32, (at + longest) as i32, "***").ok()?;
            }
            at += longest.max(1);
        }
        Ok(())
    }
}
