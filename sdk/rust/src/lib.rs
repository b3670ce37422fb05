//! The kit for plugins of the Sluice gateway in Rust. A plugin is a type that implements [`Provider`], [`Router`] or
//! [`Filter`], and one line that exports it: `sluice::export!(provider: Echo);`. README.md shows a complete one.
//!
//! A plugin works by calling the functions in [`host`], which sdk/abi/README.md specifies. It has no access to network,
//! files, environment or clock, and handles one call at a time. The gateway may run each call on another instance, so a
//! plugin must not keep state between calls, except what it derives from its options.

#[rustfmt::skip]
pub mod abi;
#[cfg(not(target_arch = "wasm32"))]
pub mod fake;
#[doc(hidden)]
pub mod glue;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod heap;
pub mod json;
mod provider;

pub use abi::*;
pub use json::{Body, Document, Input, Part};
pub use provider::{finish_reason, retry_delay, status_kind};

/// Translates between a client API, usually chat completions, and an upstream's API.
pub trait Provider: Sized {
    /// The client APIs that the upstream accepts itself: their requests arrive as the client wrote them.
    const FORMS: Forms = Forms::Chat;
    /// Reads the provider's options. The operator sees the message of an error.
    fn configure(options: &Input) -> Result<Self>;
    /// Builds the upstream request. The input is the summary: `target`, `model`, `flags`, `options` …
    fn request(&self, summary: &Input) -> Result;
    /// Reads an event of a streamed response.
    fn event(&self, _event: &Event) -> Result {
        Err(Error::plugin("the provider reads no events"))
    }
    /// Reads a complete body: a non-streaming response, or an error.
    fn response(&self, response: &Response) -> Result;
    /// Called when the upstream's body has ended cleanly.
    fn end(&self) -> Result {
        Ok(())
    }
    /// Builds the request for a page of the upstream's model list. There is no list if it sets no path.
    fn list(&self, _cursor: &str) -> Result {
        Ok(())
    }
    /// Reads a page of the model list.
    fn models(&self, _page: &Response) -> Result {
        Ok(())
    }
}

/// Decides in which order the gateway tries the targets of a request.
pub trait Router: Sized {
    /// Reads the router's settings. The operator sees the message of an error.
    fn configure(settings: &Input) -> Result<Self>;
    /// Adds the candidates. The input has the members `summary` and `targets`.
    fn choose(&self, input: &Input) -> Result;
}

/// Sees the texts of requests and responses, and may replace parts of them or reject them.
pub trait Filter: Sized {
    /// Reads the filter's options. The operator sees the message of an error.
    fn configure(options: &Input) -> Result<Self>;
    /// Called once per request, before its texts. The input has the member `summary`.
    fn request(&self, _input: &Input) -> Result {
        Ok(())
    }
    /// Filters a text, or a piece of one.
    fn text(&self, text: &Text) -> Result;
}

/// An event of a streamed response.
pub struct Event<'a> {
    pub kind: EventKind,
    pub name: &'a str,
    pub data: &'a [u8],
    /// The data as a JSON document.
    pub json: Input,
}

/// A complete body: a response, an error or a page of a model list.
pub struct Response<'a> {
    /// The HTTP status.
    pub status: i32,
    pub body: &'a [u8],
    /// The body as a JSON document.
    pub json: Input,
}

/// A text that is passed to a filter, or a piece of one.
pub struct Text<'a> {
    pub text: &'a str,
    pub what: What,
    /// Index of the response's choice, or of the request's message.
    pub choice: i32,
    pub flags: TextFlags,
    /// Number of bytes at the beginning that the filter held in the preceding call.
    pub held: usize,
}

impl Text<'_> {
    /// Reports whether this is the end of the text.
    pub fn complete(&self) -> bool {
        self.flags.0 & TextFlags::Complete.0 != 0
    }
}

/// The reason why a call ended early.
#[derive(Debug)]
pub enum Error {
    /// The request cannot be completed: the client receives this error.
    Failure { kind: FailKind, code: String, param: String, message: String, retry_after_ms: i32 },
    /// The plugin failed. The text appears in the gateway's log, but not in the client's response.
    Plugin(String),
}

pub type Result<T = ()> = core::result::Result<T, Error>;

impl Error {
    /// Returns a failure of the request. The kind determines the status and whether another target is tried. An empty
    /// message means the kind's default.
    pub fn fail(kind: FailKind, message: &str) -> Error {
        let (code, param, message) = (String::new(), String::new(), message.to_string());
        Error::Failure { kind, code, param, message, retry_after_ms: RETRY_AFTER_UNKNOWN }
    }

    /// Returns the failure of a request with a member that the provider does not support.
    pub fn refuse(member: &str, message: &str) -> Error {
        let (code, param, message) = (String::new(), member.to_string(), message.to_string());
        let kind = FailKind::Unsupported;
        Error::Failure { kind, code, param, message, retry_after_ms: RETRY_AFTER_UNKNOWN }
    }

    /// Returns a failure of the plugin, with the caller's line.
    #[track_caller]
    pub fn plugin(text: impl core::fmt::Display) -> Error {
        let at = core::panic::Location::caller();
        Error::Plugin(format!("{}:{}: {}", at.file(), at.line(), text))
    }
}

/// A failure of the plugin with a message for the operator, for example about invalid settings.
impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error::Plugin(text.to_string())
    }
}

impl Status {
    /// Returns an error with the caller's line unless the status is OK.
    #[track_caller]
    pub fn ok(self) -> Result {
        match self {
            Status::OK => Ok(()),
            Status::Absent => Err(Error::plugin("absent")),
            Status::TooLarge => Err(Error::plugin("too large")),
            Status::Unknown => Err(Error::plugin("unknown to this gateway")),
            _ => Err(Error::plugin("refused by the gateway")),
        }
    }
}

/// Writes a line to the plugin's log. Never log text of requests or responses.
pub fn log(message: impl AsRef<[u8]>) {
    host::log(LogLevel::Info, message)
}

/// Returns the state that an earlier call of the attempt stored.
pub fn state() -> String {
    json::fetch(|dst| host::state_get(dst)).unwrap_or_default()
}

/// Returns a header of the upstream's response.
pub fn response_header(name: &str) -> Option<String> {
    json::fetch(|dst| host::response_header(name, dst))
}
