//! JSON documents. The gateway parses them and finds values by JSON pointer, so a plugin contains no parser.

use crate::{host, Error, FailKind, Result};

/// Copies a value of unknown size out of the gateway, or returns None if there is none.
pub(crate) fn fetch(read: impl Fn(&mut [u8]) -> i32) -> Option<String> {
    let mut value = vec![0; 128];
    loop {
        let size = read(&mut value);
        if size < 0 {
            return None;
        }
        let fits = size as usize <= value.len();
        value.resize(size as usize, 0);
        if fits {
            return Some(String::from_utf8(value).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()));
        }
    }
}

/// A JSON document. Paths are JSON pointers such as `/messages/0/role`; the empty path is the whole document.
pub trait Document {
    /// Copies as much of a JSON value as fits, and returns its full size, or a negative number if there is none.
    fn read(&self, path: &str, dst: &mut [u8]) -> i32;

    /// Returns a value as JSON, as it is written in the document.
    fn raw(&self, path: &str) -> Option<String> {
        fetch(|dst| self.read(path, dst))
    }
    /// Returns a string, unescaped.
    fn text(&self, path: &str) -> Option<String> {
        self.inside(path).map(|s| unescape(&s))
    }
    /// Returns a string without its quotes, still escaped, for `Encoding::Escaped`.
    fn inside(&self, path: &str) -> Option<String> {
        let mut raw = self.raw(path)?;
        if !raw.starts_with('"') {
            return None;
        }
        raw.pop();
        raw.remove(0);
        Some(raw)
    }
    fn int(&self, path: &str) -> Option<i64> {
        self.raw(path)?.parse().ok()
    }
    fn float(&self, path: &str) -> Option<f64> {
        self.raw(path)?.parse().ok()
    }
    fn bool(&self, path: &str) -> Option<bool> {
        self.raw(path)?.parse().ok()
    }
    /// Returns a number written as 16 hexadecimal digits, such as `/summary/affinity` or `/summary/random`.
    fn hash(&self, path: &str) -> Option<u64> {
        let digits = self.inside(path)?;
        if digits.len() != 16 || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(&digits, 16).ok()
    }
    fn exists(&self, path: &str) -> bool {
        self.read(path, &mut []) >= 0
    }
}

/// The document of the call's input, or a value within it.
pub struct Input {
    prefix: String,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input { prefix: String::new() }
    }
    /// Returns the number of an array's elements or an object's members, 0 for any other value.
    pub fn count(&self, path: &str) -> usize {
        host::input_count(self.full(path)).max(0) as usize
    }
    /// Returns the elements of an array.
    pub fn items(&self, path: &str) -> Vec<Input> {
        let item = |i| Input { prefix: self.full(&format!("{}/{}", path, i)) };
        (0..self.count(path)).map(item).collect()
    }
    /// Reports whether an array contains this string.
    pub fn has(&self, path: &str, text: &str) -> bool {
        self.items(path).iter().any(|item| item.text("").as_deref() == Some(text))
    }
    /// Returns an error that blames the provider if the input is not JSON.
    pub fn check(&self) -> Result {
        if self.exists("") {
            return Ok(());
        }
        Err(Error::fail(FailKind::BadAnswer, "The provider's response is not valid JSON."))
    }
    fn full(&self, path: &str) -> String {
        [&self.prefix, path].concat()
    }
}

impl Document for Input {
    fn read(&self, path: &str, dst: &mut [u8]) -> i32 {
        host::input_get(self.full(path), dst)
    }
    fn text(&self, path: &str) -> Option<String> {
        fetch(|dst| host::input_text(self.full(path), dst))
    }
}

/// The client's body.
pub struct Body;

impl Body {
    /// Returns the number of an array's elements or an object's members, 0 for any other value.
    pub fn count(&self, path: &str) -> usize {
        host::body_count(path).max(0) as usize
    }
    /// Returns the elements of an array, such as `/messages`.
    pub fn items(&self, path: &str) -> Vec<Part> {
        (0..self.count(path)).map(|i| Part { prefix: format!("{}/{}", path, i) }).collect()
    }
}

impl Document for Body {
    fn read(&self, path: &str, dst: &mut [u8]) -> i32 {
        host::body_get(path, dst)
    }
}

/// A value within the client's body.
pub struct Part {
    prefix: String,
}

impl Part {
    /// Returns the elements of an array.
    pub fn items(&self, path: &str) -> Vec<Part> {
        Body.items(&[&self.prefix, path].concat())
    }
}

impl Document for Part {
    fn read(&self, path: &str, dst: &mut [u8]) -> i32 {
        host::body_get([&self.prefix, path].concat(), dst)
    }
}

/// Returns text as a JSON string with quotes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the text of a string's inside, that is, unescapes it.
pub fn unescape(inside: &str) -> String {
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut units = Vec::new();
        rest = &rest[at..];
        // A character above U+FFFF is escaped as two surrogates.
        while let Some(unit) =
            rest.strip_prefix("\\u").and_then(|hex| hex.get(..4)).and_then(|hex| u16::from_str_radix(hex, 16).ok())
        {
            units.push(unit);
            rest = &rest[6..];
        }
        out.push_str(&String::from_utf16_lossy(&units));
        if units.is_empty() {
            let c = rest[1..].chars().next().unwrap_or('\\');
            out.push(match c {
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                _ => c,
            });
            rest = rest.get(1 + c.len_utf8()..).unwrap_or("");
        }
    }
    out + rest
}
