//! A stand-in for the gateway, for testing a plugin's functions with `cargo test`: it serves documents and records the
//! imports that the plugin calls. To test the effect of these calls, use vectors (`sluice plugin test`).
//!
//! ```
//! use sluice::{fake::Host, host, Framing, Dialect};
//!
//! let calls = Host::new(r#"{"target":"m"}"#).run(|input| {
//!     host::answer(Framing::SSE, Dialect::Translated, "").ok()
//! });
//! assert_eq!(calls, [r#"answer 1 0 """#]);
//! ```

use crate::{glue, json, Input, Result};
use std::cell::RefCell;

thread_local! { static CURRENT: RefCell<Option<Host>> = RefCell::new(None); }

/// An argument of an import.
pub enum Arg<'a> {
    Int(i64),
    Bytes(&'a [u8]),
    Dst(&'a mut [u8]),
}

/// The host's side of one call.
#[derive(Default)]
pub struct Host {
    input: String,
    body: String,
    state: String,
    headers: Vec<(String, String)>,
    calls: Vec<String>,
}

impl Host {
    /// Creates a host with the JSON document of a call's input.
    pub fn new(input: &str) -> Host {
        Host { input: input.to_string(), ..Host::default() }
    }
    /// Sets the client's body.
    pub fn body(mut self, json: &str) -> Host {
        self.body = json.to_string();
        self
    }
    /// Sets the attempt's state.
    pub fn state(mut self, state: &str) -> Host {
        self.state = state.to_string();
        self
    }
    /// Adds a header of the upstream's response.
    pub fn header(mut self, name: &str, value: &str) -> Host {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }
    /// Runs a call and returns the imports that it called, with their arguments, except those that only read. The last
    /// entry for a call that failed is a `fail` or a `log`.
    pub fn run(self, call: impl FnOnce(&Input) -> Result) -> Vec<String> {
        CURRENT.with(|h| *h.borrow_mut() = Some(self));
        glue::finish(call(&Input::new()));
        CURRENT.with(|h| h.borrow_mut().take()).map_or(Vec::new(), |h| h.calls)
    }
    /// Runs a function that needs an input and returns a value, such as `Provider::configure`.
    pub fn read<T>(self, read: impl FnOnce(&Input) -> T) -> T {
        CURRENT.with(|h| *h.borrow_mut() = Some(self));
        read(&Input::new())
    }

    fn find(&self, name: &str, path: &str) -> Option<String> {
        let doc = if name.starts_with("body_") { &self.body } else { &self.input };
        match name {
            "body_get" | "body_count" | "input_get" | "input_count" => pointer(doc, path).map(str::to_string),
            "input_text" => pointer(doc, path)?.strip_prefix('"').map(|s| json::unescape(&s[..s.len() - 1])),
            "response_header" => self.headers.iter().find(|h| h.0 == path).map(|h| h.1.clone()),
            _ => Some(self.state.clone()),
        }
    }

    fn call(&mut self, name: &str, args: &mut [Arg]) -> i64 {
        let text = |p: &[u8]| String::from_utf8_lossy(p).into_owned();
        match (name, args) {
            ("host_minor", _) => return crate::MINOR.into(),
            ("input_count" | "body_count", [Arg::Bytes(path)]) => {
                return self.find(name, &text(path)).map_or(-1, |v| {
                    if v.starts_with(['{', '[']) {
                        children(&v).len() as i64
                    } else {
                        -2
                    }
                });
            }
            (_, [Arg::Bytes(path), Arg::Dst(dst)]) => return self.find(name, &text(path)).map_or(-1, |v| copy(&v, dst)),
            (_, [Arg::Dst(dst)]) => return copy(&self.state, dst),
            (_, args) => {
                let mut line = name.to_string();
                for arg in args.iter() {
                    match arg {
                        Arg::Int(n) => line += &format!(" {}", n),
                        Arg::Bytes(p) => line += &format!(" {:?}", text(p)),
                        Arg::Dst(_) => {}
                    }
                }
                self.calls.push(line);
            }
        }
        0
    }
}

/// The target of the functions of `host` in a native build.
pub fn call(name: &str, args: &mut [Arg]) -> i64 {
    CURRENT.with(|h| h.borrow_mut().as_mut().expect("a plugin's function is called outside of fake::Host").call(name, args))
}

fn copy(value: &str, dst: &mut [u8]) -> i64 {
    let n = value.len().min(dst.len());
    dst[..n].copy_from_slice(&value.as_bytes()[..n]);
    value.len() as i64
}

/// Finds a value in a well-formed document by JSON pointer.
fn pointer<'a>(doc: &'a str, path: &str) -> Option<&'a str> {
    let mut value = doc.trim();
    for name in path.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let array = value.starts_with('[');
        value =
            children(value).into_iter().enumerate().find(|(i, c)| if array { i.to_string() == name } else { c.0 == name })?.1 .1;
    }
    (!value.is_empty()).then(|| value)
}

/// Returns the names and values of an object's members, or an array's elements with empty names.
fn children(value: &str) -> Vec<(String, &str)> {
    if !value.starts_with(['{', '[']) {
        return Vec::new();
    }
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let (mut start, mut name, mut list) = (1, String::new(), Vec::new());
    for (i, c) in value.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            ':' if depth == 1 => {
                name = json::unescape(value[start..i].trim().trim_matches('"'));
                start = i + 1;
            }
            ',' | '}' | ']' => {
                if depth == 1 && !value[start..i].trim().is_empty() {
                    list.push((std::mem::take(&mut name), value[start..i].trim()));
                    start = i + 1;
                }
                depth -= if c == ',' { 0 } else { 1 };
            }
            _ => {}
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host, Document, Error, FailKind, Status};

    #[test]
    fn documents_are_read_by_pointer() {
        let doc = r#"{"a":{"b":[1, {"c/d":"x\n\u00e4\ud83d\ude00"}, []]},"t":true,"f":-1.5e1,"e":{},"n":null,"q":"[\"}"}"#;
        Host::new(doc).body(doc).read(|input| {
            for value in [input as &dyn Document, &crate::Body] {
                assert_eq!(value.int("/a/b/0"), Some(1));
                assert_eq!(value.text("/a/b/1/c~1d").as_deref(), Some("x\nä😀"));
                assert_eq!(value.inside("/a/b/1/c~1d").as_deref(), Some(r"x\n\u00e4\ud83d\ude00"));
                assert_eq!(value.raw("/a/b/2").as_deref(), Some("[]"));
                assert_eq!(value.bool("/t"), Some(true));
                assert_eq!(value.float("/f"), Some(-15.0));
                assert_eq!(value.text("/q").as_deref(), Some("[\"}"));
                assert_eq!(value.text("/t"), None);
                assert_eq!(value.int("/f"), None);
                assert!(value.exists("/n") && !value.exists("/a/b/3") && !value.exists("/e/x") && !value.exists("/t/x"));
            }
            assert_eq!((input.count("/a/b"), input.count("/e"), input.count("/t"), input.count("/x")), (3, 0, 0, 0));
            assert_eq!(input.items("/a/b")[1].text("/c~1d").as_deref(), Some("x\nä😀"));
            assert_eq!((crate::Body.count("/a/b"), crate::Body.count("/t")), (3, 0));
            assert_eq!(crate::Body.items("/a/b")[1].text("/c~1d").as_deref(), Some("x\nä😀"));
            assert!(input.check().is_ok());
        });
        Host::new(r#"{"l":["a","b"]}"#).read(|input| assert!(input.has("/l", "b") && !input.has("/l", "c")));
        assert!(matches!(Host::new("").read(|input| input.check()), Err(Error::Failure { kind: FailKind::BadAnswer, .. })));
    }

    #[test]
    fn hashes_are_read() {
        Host::new(r#"{"a":"9f86d081884c7d65","b":"9f86","c":"+f86d081884c7d65","d":1}"#).read(|input| {
            assert_eq!(input.hash("/a"), Some(0x9f86d081884c7d65));
            assert!(["/b", "/c", "/d", "/e"].iter().all(|path| input.hash(path).is_none()));
        });
    }

    #[test]
    fn texts_become_json_and_back() {
        for text in ["", "plain", "\"quoted\" \\ \n\t\u{1}", "ä😀"] {
            assert_eq!(json::unescape(json::quote(text).trim_matches('"')), text.to_string());
        }
        assert_eq!(json::quote("\"\u{7}"), r#""\"\u0007""#);
        assert_eq!(json::unescape(r"\ud800x\/\b\q"), "\u{fffd}x/\u{8}q");
    }

    #[test]
    fn calls_are_noted() {
        let calls = Host::new("{}").state("s").header("retry-after", "3").run(|_| {
            assert_eq!(
                (crate::state(), crate::response_header("retry-after"), crate::response_header("x")),
                ("s".to_string(), Some("3".to_string()), None)
            );
            host::request_path("/say").ok()?;
            Err(Error::refuse("tools", "none"))
        });
        assert_eq!(calls, [r#"request_path "/say""#, r#"fail 1 "" "tools" "none" -1"#]);
        let calls = Host::new("{}").run(|_| Status::Refused.ok());
        assert_eq!(calls, [format!("log 3 \"{}:{}: refused by the gateway\"", file!(), line!() - 1)]);
    }
}
