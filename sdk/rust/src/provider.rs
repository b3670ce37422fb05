//! What providers have in common: statuses, finish reasons and delays.

use crate::{FailKind, FinishReason};

/// Returns the kind of failure that an error's status means, for errors whose body is no more specific.
pub fn status_kind(status: i32) -> FailKind {
    match status {
        400 | 422 => FailKind::InvalidRequest,
        401 | 403 => FailKind::Auth,
        402 => FailKind::Billing,
        404 => FailKind::ModelNotFound,
        409 => FailKind::Conflict,
        413 => FailKind::TooLarge,
        429 => FailKind::RateLimit,
        408 | 504 => FailKind::Timeout,
        503 => FailKind::Overloaded,
        _ => FailKind::Server,
    }
}

/// Returns the finish reason that a provider's word for it means, ignoring case: `end_turn`, `MAX_TOKENS`, `tool_use` and
/// others.
pub fn finish_reason(native: &str) -> Option<FinishReason> {
    Some(match native.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "complete" | "completed" | "stop_sequence" | "eos" | "eos_token" | "done" => FinishReason::Stop,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => FinishReason::ToolCalls,
        "content_filter"
        | "content_filtered"
        | "safety"
        | "refusal"
        | "guardrail_intervened"
        | "recitation"
        | "prohibited_content" => FinishReason::ContentFilter,
        _ => return None,
    })
}

/// Returns the delay in a provider's error message in milliseconds, rounded up, for `retry_after_ms`: a number of seconds
/// (`20`, `48.9`) or a duration (`250ms`, `1m30.5s`, `2 minutes`), alone or after a phrase such as `Please try again in`.
pub fn retry_delay(text: &str) -> Option<i32> {
    let text = text.trim().to_ascii_lowercase();
    let phrases = ["try again in ", "retry in ", "retry after ", "retrying in ", "reset in ", "wait "];
    let after = phrases.iter().filter_map(|p| text.find(p).and_then(|at| read_delay(&text[at + p.len()..])));
    read_delay(&text).or(after.into_iter().next())
}

/// The longest delay, in milliseconds.
const MAX_DELAY: f64 = 7.0 * 86_400_000.0;

/// Reads a delay at the beginning of a text.
fn read_delay(text: &str) -> Option<i32> {
    let (mut rest, mut sum) = (text, None);
    loop {
        let is_number = |(i, c): (usize, u8)| {
            let digit = |at: usize| rest.as_bytes().get(at).map_or(false, u8::is_ascii_digit);
            c.is_ascii_digit() || c == b'.' && i > 0 && digit(i + 1) && !rest[..i].contains('.')
        };
        let end = rest.bytes().enumerate().position(|x| !is_number(x)).unwrap_or(rest.len());
        let value: f64 = match rest[..end].parse() {
            Ok(value) => value,
            Err(_) => break,
        };
        rest = rest[end..].trim_start_matches(' ');
        let word = rest.bytes().position(|c| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        let unit = match &rest[..word] {
            "milliseconds" | "millisecond" | "ms" => 1.0,
            "seconds" | "second" | "secs" | "sec" | "s" => 1000.0,
            "minutes" | "minute" | "mins" | "min" | "m" => 60_000.0,
            "hours" | "hour" | "hrs" | "h" => 3_600_000.0,
            "days" | "day" | "d" => 86_400_000.0,
            _ if sum.is_some() => break, // a number after the delay
            _ => {
                sum = Some(value * 1000.0);
                break;
            }
        };
        sum = Some(sum.unwrap_or(0.0) + value * unit);
        rest = rest[word..].trim_start_matches(' ');
    }
    sum.map(|ms| ((ms - 1e-6).max(0.0).min(MAX_DELAY)).ceil() as i32).filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read() {
        for (text, want) in [
            ("20", 20_000),
            ("48.9", 48_900),
            ("250ms", 250),
            ("1m30.5s", 90_500),
            ("Please try again in 2 minutes.", 120_000),
            ("Retry after 1.0001 s", 1001),
            ("Rate limit: wait 3", 3000),
            ("1h 2 more", 3_600_000),
            ("99999d", 604_800_000),
        ] {
            assert_eq!(retry_delay(text), Some(want), "{}", text);
        }
        for text in ["", "soon", "0", "try again later", "ä", "-5"] {
            assert_eq!(retry_delay(text), None, "{}", text);
        }
    }

    #[test]
    fn numbers_are_mapped() {
        assert_eq!(
            (status_kind(429), status_kind(404), status_kind(418)),
            (FailKind::RateLimit, FailKind::ModelNotFound, FailKind::Server)
        );
        assert_eq!(
            (finish_reason("MAX_TOKENS"), finish_reason("tool_use"), finish_reason("x")),
            (Some(FinishReason::Length), Some(FinishReason::ToolCalls), None)
        );
    }
}
