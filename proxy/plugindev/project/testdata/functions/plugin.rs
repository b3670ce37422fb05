//! A provider that reports what functions of the kit return for each message.
use sluice::{finish_reason, host, retry_delay, status_kind, Body, Document, Encoding, FinishReason, Input, Provider, Response, Result, DONE_NOW, RETRY_AFTER_UNKNOWN};

struct Functions;

sluice::export!(provider: Functions);

impl Provider for Functions {
    fn configure(_options: &Input) -> Result<Functions> {
        Ok(Functions)
    }

    fn request(&self, _summary: &Input) -> Result {
        let temperature = Body.float("/temperature").unwrap_or(0.0) * 1000.0;
        let kind = status_kind(Body.int("/max_tokens").unwrap_or(0) as i32);
        let mut out = format!("{} {} {} {}", Body.count("/messages"), Body.count("/model"), temperature as i32, kind.0);
        for message in Body.items("/messages") {
            let (role, text) = (message.text("/role").unwrap_or_default(), message.text("/content").unwrap_or_default());
            let reason = finish_reason(&text).unwrap_or(FinishReason::Stop);
            out += &format!("\n{} {} {}", role, retry_delay(&text).unwrap_or(RETRY_AFTER_UNKNOWN), reason.0);
        }
        host::text(0, Encoding::UTF8, out);
        host::finish(0, FinishReason::Stop, "");
        host::done(DONE_NOW);
        Ok(())
    }

    fn response(&self, _response: &Response) -> Result {
        Ok(())
    }
}
