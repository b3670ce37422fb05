//! The kit for plugins of the Sluice gateway. A plugin is a type that implements [`Provider`], [`Router`] or [`Filter`], and
//! one line: `sluice::export!(provider: Echo);`. README.md shows a whole one.
//!
//! What a plugin does is calls of the functions in [`host`], which the contract, sdk/abi/README.md, describes. A plugin has no
//! access to network, files, environment or clock, and handles one call at a time. The gateway chooses an instance for each
//! call, so a plugin keeps nothing between calls but what follows from its settings.

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

pub use abi::*;
pub use json::{Body, Document, Input};

/// Translates between an API of clients, mostly chat completions, and that of an upstream.
pub trait Provider: Sized {
    /// The APIs that the upstream speaks itself: their requests arrive as the client wrote them.
    const FORMS: Forms = Forms::Chat;
    /// Reads the provider's options. The operator sees the text of an error.
    fn configure(options: &Input) -> Result<Self>;
    /// Builds the upstream's request. The input is the summary: `target`, `model`, `flags`, `options` …
    fn request(&self, summary: &Input) -> Result;
    /// Reads an event of a response.
    fn event(&self, _event: &Event) -> Result {
        Err(Error::plugin("the provider reads no events"))
    }
    /// Reads a body: a response that is not a stream, or an error.
    fn response(&self, response: &Response) -> Result;
    /// The upstream's body has ended cleanly.
    fn end(&self) -> Result {
        Ok(())
    }
    /// Builds the request for a page of the upstream's model list; without a path there is no list.
    fn list(&self, _cursor: &str) -> Result {
        Ok(())
    }
    /// Reads that page.
    fn models(&self, _page: &Response) -> Result {
        Ok(())
    }
}

/// Decides in which order the targets of a request are tried.
pub trait Router: Sized {
    /// Reads the router's settings. The operator sees the text of an error.
    fn configure(settings: &Input) -> Result<Self>;
    /// Names the candidates. The input has `summary` and `targets`.
    fn choose(&self, input: &Input) -> Result;
}

/// Sees the texts of requests and responses, and may replace parts of them or refuse them.
pub trait Filter: Sized {
    /// Reads the filter's options. The operator sees the text of an error.
    fn configure(options: &Input) -> Result<Self>;
    /// Called once a request, before its texts. The input has `summary`.
    fn request(&self, _input: &Input) -> Result {
        Ok(())
    }
    /// Reads a text, or a piece of one.
    fn text(&self, text: &Text) -> Result;
}

/// An event of a response.
pub struct Event<'a> {
    pub kind: EventKind,
    pub name: &'a str,
    pub data: &'a [u8],
    /// The data as a JSON document.
    pub json: Input,
}

/// A complete body, of a response, an error or a list of models.
pub struct Response<'a> {
    /// The HTTP status.
    pub status: i32,
    pub body: &'a [u8],
    /// The body as a JSON document.
    pub json: Input,
}

/// A text that a filter sees, or a piece of one.
pub struct Text<'a> {
    pub text: &'a str,
    pub what: What,
    /// Of a response the choice, of a request the message.
    pub choice: i32,
    pub flags: TextFlags,
    /// So many bytes at the beginning were held before.
    pub held: usize,
}

impl Text<'_> {
    /// Whether nothing of the text follows.
    pub fn complete(&self) -> bool {
        self.flags.0 & TextFlags::Complete.0 != 0
    }
}

/// What ends a call early.
#[derive(Debug)]
pub enum Error {
    /// The request cannot be completed: an error for the client.
    Failure { kind: FailKind, code: String, param: String, message: String, retry_after_ms: i32 },
    /// The plugin has failed. The text is in the gateway's log, and not in the client's response.
    Plugin(String),
}

pub type Result<T = ()> = core::result::Result<T, Error>;

impl Error {
    /// A failure of the request. The kind decides the status and whether another target is tried; an empty message stands for
    /// the kind's own.
    pub fn fail(kind: FailKind, message: &str) -> Error {
        let (code, param, message) = (String::new(), String::new(), message.to_string());
        Error::Failure { kind, code, param, message, retry_after_ms: RETRY_AFTER_UNKNOWN }
    }

    /// The failure of a request that the provider does not support because of one of its members.
    pub fn refuse(member: &str, message: &str) -> Error {
        let (code, param, message) = (String::new(), member.to_string(), message.to_string());
        let kind = FailKind::Unsupported;
        Error::Failure { kind, code, param, message, retry_after_ms: RETRY_AFTER_UNKNOWN }
    }

    /// A failure of the plugin, with the line of the caller.
    #[track_caller]
    pub fn plugin(text: impl core::fmt::Display) -> Error {
        let at = core::panic::Location::caller();
        Error::Plugin(format!("{}:{}: {}", at.file(), at.line(), text))
    }
}

/// A failure of the plugin in one's own words, as for settings that are wrong: the operator sees them.
impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error::Plugin(text.to_string())
    }
}

impl Status {
    /// Fails, with the line of the caller, unless the import did what it was asked for.
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

/// Writes a line to the plugin's log. Never log the content of requests or responses.
pub fn log(message: impl AsRef<[u8]>) {
    host::log(LogLevel::Info, message)
}

/// The state that earlier calls of the attempt have set.
pub fn state() -> String {
    json::fetch(|dst| host::state_get(dst)).unwrap_or_default()
}

/// A header of the upstream's response.
pub fn response_header(name: &str) -> Option<String> {
    json::fetch(|dst| host::response_header(name, dst))
}
