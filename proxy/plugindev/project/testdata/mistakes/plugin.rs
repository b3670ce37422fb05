//! A provider that makes the mistake that the prompt or the provider's response names.
use sluice::{host, log, Body, Dialect, Document, Encoding, Error, FailKind, FinishReason, Framing, Input, Provider, Response, Result, Scope, UsageKind, DONE_NOW, MAX_STATE};

struct Mistaken;

sluice::export!(provider: Mistaken);

/// Hides a number from the optimizer.
fn opaque(n: usize) -> usize {
    unsafe { core::ptr::read_volatile(&n) }
}

#[inline(never)]
fn recurse(n: usize) -> usize {
    if n == usize::MAX {
        0
    } else {
        recurse(opaque(n) + 1) + n
    }
}

impl Provider for Mistaken {
    fn configure(options: &Input) -> Result<Mistaken> {
        match options.text("/mistake").unwrap_or_default().as_str() {
            "error" => Err("no such mistake".into()),
            "panic" => panic!("in configure"),
            _ => Ok(Mistaken),
        }
    }

    fn request(&self, _summary: &Input) -> Result {
        let name = Body.text("/messages/0/content").unwrap_or_default();
        let list = [1, 2];
        match name.as_str() {
            "panic" => panic!("as the prompt says"),
            "assertion" => assert_eq!(name.len(), 0, "a short prompt"),
            "index" => log(list[name.len()].to_string()),
            "unwrap" => log(Body.text("/missing").unwrap()),
            "loop" => while opaque(1) > 0 {},
            "recursion" => log(recurse(1).to_string()),
            "memory" => {
                let mut all = Vec::new();
                loop {
                    all.push(vec![name.len() as u8; 1 << 20]);
                }
            }
            "error" => return Err(Error::plugin("it went wrong")),
            "error without a message" => return Err("".into()),
            "refuse" => return Err(Error::refuse("messages", "Not this prompt.")),
            "nothing" => return Ok(()),
            "path" => {
                host::request_path("/other");
                return Ok(());
            }
            "path in a check" => return host::request_path("/other").ok(),
            _ => {}
        }
        host::request_path("/say").ok()?;
        match name.as_str() {
            "second path" => drop(host::request_path("/other")),
            "reserved header" => drop(host::request_header("Authorization", "Bearer x")),
            "header" => drop(host::request_header("x-other", "1")),
            "header with a line feed" => drop(host::request_header("x-own", "a\nb")),
            "edits and writes" => {
                host::body_set("/model", "\"m\"");
                host::request_write("{}")
            }
            "body is not JSON" => host::request_write("{\"a\":"),
            "value is not JSON" => drop(host::body_set("/model", "m")),
            "sets in nothing" => drop(host::body_set("/a/b", "1")),
            "unknown framing" => drop(host::answer(Framing(99), Dialect::Translated, "")),
            "import of another call" => host::candidate(0),
            "request and response" => {
                host::text(0, Encoding::UTF8, "Hi");
                host::done(DONE_NOW)
            }
            "log" => log("logged"),
            _ => {}
        }
        Ok(())
    }

    fn response(&self, response: &Response) -> Result {
        let name = response.json.text("/mistake").unwrap_or_default();
        let (mut text, mut finish, mut done) = (true, true, true);
        match name.as_str() {
            "panic" => panic!("as the response says"),
            "error" => return Err(Error::fail(FailKind::Server, "")),
            "nothing" => return Ok(()),
            "endless output" => loop {
                host::text(0, Encoding::UTF8, "Hi")
            },
            "text after finish" => {
                host::finish(0, FinishReason::Stop, "");
                finish = false
            }
            "arguments without a call" => drop(host::tool_arguments(0, 1, Encoding::UTF8, "{}")),
            "arguments are not JSON" => {
                host::tool_call(0, 1, "c", "f");
                host::tool_arguments(0, 1, Encoding::UTF8, "{");
                text = false
            }
            "reserved member" => drop(host::extra(Scope::Answer, 0, 0, "choices", "[]")),
            "large state" => drop(host::state_set(vec![0; MAX_STATE as usize + 1])),
            "not UTF-8" => host::text(0, Encoding::UTF8, [0xff]),
            "unescaped" => host::text(0, Encoding::Escaped, "a\"b"),
            "unknown encoding" => host::text(0, Encoding(7), "Hi"),
            "unknown reason" => {
                host::finish(0, FinishReason(99), "");
                finish = false
            }
            "negative usage" => host::usage(UsageKind::Prompt, -1),
            "choice out of range" => host::text(-1, Encoding::UTF8, "Hi"),
            "no finish" => finish = false,
            "no done" => {
                finish = false;
                done = false
            }
            _ => {}
        }
        if text {
            host::text(0, Encoding::UTF8, "Hi")
        }
        if finish {
            host::finish(0, FinishReason::Stop, "")
        }
        if done {
            host::done(DONE_NOW)
        }
        match name.as_str() {
            "text after done" => host::text(0, Encoding::UTF8, "Hi"),
            "usage after done" => host::usage(UsageKind::Prompt, 5),
            _ => {}
        }
        Ok(())
    }
}
