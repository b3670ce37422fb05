//! Support for `export!`: the exports are functions of the plugin's own crate, which call these.

use crate::{host, Error, Event, EventKind, Input, LogLevel, Response, Result, Text, TextFlags, What};
use std::cell::UnsafeCell;

#[cfg(target_arch = "wasm32")]
pub use crate::heap::Heap;

/// A static variable without locking. A module handles one call at a time and has no threads.
struct Global<T>(UnsafeCell<T>);

unsafe impl<T> Sync for Global<T> {}

static INPUT: Global<Vec<u8>> = Global(UnsafeCell::new(Vec::new()));

/// The plugin's configured instances, by binding.
pub struct Bindings<T>(Global<Vec<Option<T>>>);

impl<T> Bindings<T> {
    pub const fn new() -> Bindings<T> {
        Bindings(Global(UnsafeCell::new(Vec::new())))
    }

    /// The export sluice_configure.
    pub fn configure(&self, binding: i32, new: fn(&Input) -> Result<T>) -> i32 {
        // SAFETY: the host makes one call at a time, and `new` has no access to the bindings.
        let all = unsafe { &mut *self.0 .0.get() };
        let at = binding as usize;
        if all.len() <= at {
            all.resize_with(at + 1, || None);
        }
        finish(new(&Input::new()).map(|plugin| all[at] = Some(plugin)))
    }

    /// All other exports: calls the plugin of a binding.
    pub fn call(&self, binding: i32, f: impl FnOnce(&T) -> Result) -> i32 {
        // SAFETY: only configure changes the bindings, and it never runs during another call.
        let all = unsafe { &*self.0 .0.get() };
        match all.get(binding as usize) {
            Some(Some(plugin)) => finish(f(plugin)),
            _ => 1,
        }
    }
}

/// Reports the result of a call, and returns the call's status.
pub fn finish(result: Result) -> i32 {
    let status = match result {
        Ok(()) => 0,
        Err(Error::Failure { kind, code, param, message, retry_after_ms }) => {
            host::fail(kind, code, param, message, retry_after_ms);
            0
        }
        Err(Error::Plugin(text)) => {
            host::log(LogLevel::Error, text);
            1
        }
    };
    keep_live_blocks();
    status
}

/// Ends a call: makes the memory that it has not freed permanent.
fn keep_live_blocks() {
    #[cfg(target_arch = "wasm32")]
    crate::heap::keep_live_blocks();
}

/// The export sluice_abi_v1. The host calls it first, so it installs the panic hook that logs where a panic happened.
pub fn version() -> i32 {
    std::panic::set_hook(Box::new(|info| {
        let text = match info.payload().downcast_ref::<&str>() {
            Some(text) => text,
            None => info.payload().downcast_ref::<String>().map_or("panic", |s| s.as_str()),
        };
        let at = info.location().map_or((String::new(), 0), |l| (l.file().to_string(), l.line()));
        host::log(LogLevel::Error, format!("{}:{}: {}", at.0, at.1, text));
    }));
    crate::MINOR
}

/// The export sluice_buffer.
pub fn buffer(size: i32) -> *mut u8 {
    // SAFETY: as in configure. No call is running, so there is no reference into the buffer.
    let input = unsafe { &mut *INPUT.0.get() };
    if input.len() < size as usize {
        *input = vec![0; (size as usize).max(2 * input.len()).max(4096)];
        keep_live_blocks();
    }
    input.as_mut_ptr()
}

/// Returns a part of the call's input.
pub fn input(from: i32, length: i32) -> &'static [u8] {
    // SAFETY: the buffer stays valid until the host requests another one, which it does after the call.
    let input = unsafe { &*INPUT.0.get() };
    &input[from as usize..(from + length) as usize]
}

fn text(from: i32, length: i32) -> &'static str {
    std::str::from_utf8(input(from, length)).unwrap_or("")
}

pub fn document() -> Input {
    Input::new()
}

pub fn event(kind: i32, name_length: i32, data_length: i32) -> Event<'static> {
    Event { kind: EventKind(kind), name: text(0, name_length), data: input(name_length, data_length), json: Input::new() }
}

pub fn response(status: i32, length: i32) -> Response<'static> {
    Response { status, body: input(0, length), json: Input::new() }
}

pub fn cursor(length: i32) -> &'static str {
    text(0, length)
}

pub fn filtered(what: i32, choice: i32, flags: i32, held: i32, length: i32) -> Text<'static> {
    let (what, flags, held) = (What(what), TextFlags(flags), held as usize);
    Text { text: text(0, length), what, choice, flags, held }
}

/// Makes a type the module's plugin: `export!(provider: Echo);`, or `router:` or `filter:`.
#[macro_export]
macro_rules! export {
    (provider: $plugin:ty) => {
        $crate::export!(@module $plugin, $crate::Provider, {
            #[no_mangle]
            extern "C" fn sluice_forms(_: i32) -> i32 {
                <$plugin as $crate::Provider>::FORMS.0
            }
            #[no_mangle]
            extern "C" fn provider_request(binding: i32, _: i32) -> i32 {
                BINDINGS.call(binding, |p| p.request(&glue::document()))
            }
            #[no_mangle]
            extern "C" fn provider_response(binding: i32, status: i32, length: i32) -> i32 {
                BINDINGS.call(binding, |p| p.response(&glue::response(status, length)))
            }
            #[no_mangle]
            extern "C" fn provider_event(binding: i32, kind: i32, name: i32, data: i32) -> i32 {
                BINDINGS.call(binding, |p| p.event(&glue::event(kind, name, data)))
            }
            #[no_mangle]
            extern "C" fn provider_end(binding: i32) -> i32 {
                BINDINGS.call(binding, |p| p.end())
            }
            #[no_mangle]
            extern "C" fn provider_list(binding: i32, cursor: i32) -> i32 {
                BINDINGS.call(binding, |p| p.list(glue::cursor(cursor)))
            }
            #[no_mangle]
            extern "C" fn provider_models(binding: i32, status: i32, length: i32) -> i32 {
                BINDINGS.call(binding, |p| p.models(&glue::response(status, length)))
            }
        });
    };
    (router: $plugin:ty) => {
        $crate::export!(@module $plugin, $crate::Router, {
            #[no_mangle]
            extern "C" fn router_choose(binding: i32, _: i32) -> i32 {
                BINDINGS.call(binding, |p| p.choose(&glue::document()))
            }
        });
    };
    (filter: $plugin:ty) => {
        $crate::export!(@module $plugin, $crate::Filter, {
            #[no_mangle]
            extern "C" fn filter_request(binding: i32, _: i32) -> i32 {
                BINDINGS.call(binding, |p| p.request(&glue::document()))
            }
            #[no_mangle]
            extern "C" fn filter_text(binding: i32, what: i32, choice: i32, flags: i32, held: i32, length: i32) -> i32 {
                BINDINGS.call(binding, |p| p.text(&glue::filtered(what, choice, flags, held, length)))
            }
        });
    };
    (@module $plugin:ty, $kind:path, { $($exports:item)* }) => {
        #[allow(unsafe_code)]
        const _: () = {
            use $crate::glue;
            use $kind as _;
            static BINDINGS: glue::Bindings<$plugin> = glue::Bindings::new();
            #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
            #[global_allocator]
            static HEAP: glue::Heap = glue::Heap;
            #[no_mangle]
            extern "C" fn sluice_abi_v1() -> i32 {
                glue::version()
            }
            #[no_mangle]
            extern "C" fn sluice_buffer(size: i32) -> *mut u8 {
                glue::buffer(size)
            }
            #[no_mangle]
            extern "C" fn sluice_configure(binding: i32, _: i32) -> i32 {
                BINDINGS.configure(binding, <$plugin as $kind>::configure)
            }
            $($exports)*
        };
    };
}
