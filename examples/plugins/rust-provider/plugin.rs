//! A provider plugin for a simple API: POST /say accepts a chat completions request with "turns" instead of "messages",
//! and streams events: {"text":"…"} for each piece of text, and {"tokens":…} at the end.
#![deny(unsafe_code)]

use sluice::{host, Dialect, Document, Encoding, Error, Event, FailKind, FinishReason, Framing};
use sluice::{Input, Provider, Response, Result, UsageKind, DONE_NOW};

/// Translates requests and responses. It needs no state.
struct Say;

sluice::export!(provider: Say);

impl Provider for Say {
    fn configure(_options: &Input) -> Result<Say> {
        Ok(Say)
    }

    /// Builds the provider's request from the client's.
    fn request(&self, summary: &Input) -> Result {
        if summary.has("/flags", "tools") {
            return Err(Error::refuse("tools", "The upstream has no tools."));
        }
        host::request_path("/say").ok()?;
        host::answer(
            Framing::SSE | Framing::EventsAreJSON,
            Dialect::Translated,
            "",
        )
        .ok()?;
        host::body_set("/model", summary.raw("/target").unwrap_or_default()).ok()?;
        host::body_rename("/messages", "turns").ok()
    }

    /// Reports the content of an event in the provider's stream.
    fn event(&self, event: &Event) -> Result {
        if let Some(text) = event.json.inside("/text") {
            host::text(0, Encoding::Escaped, text);
        }
        if let Some(tokens) = event.json.int("/tokens") {
            host::usage(UsageKind::Completion, tokens);
            host::finish(0, FinishReason::Stop, "");
            host::done(DONE_NOW);
        }
        Ok(())
    }

    /// Interprets a response without a stream, which is always an error in this API.
    fn response(&self, response: &Response) -> Result {
        let kind = if response.status == 429 {
            FailKind::RateLimit
        } else {
            FailKind::Server
        };
        Err(Error::fail(kind, ""))
    }
}
