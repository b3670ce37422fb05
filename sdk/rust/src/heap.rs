//! The allocator of a module. A call of a plugin is short and keeps nothing, so that memory is handed out from one end to the
//! other and is all free again when the call has freed its last block. An instance without large inputs stays within the one
//! page of memory that it starts with, of which a general allocator could not use the rest.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::UnsafeCell;

const PAGE: usize = 64 << 10;

/// The module's memory behind its static data.
pub struct Heap;

struct State {
    floor: usize, // blocks below are kept for good
    next: usize,  // the next block's address; 0 before the first
    live: usize,  // blocks above floor
}

struct Shared(UnsafeCell<State>);

// Safety: a module has no threads.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(State { floor: 0, next: 0, live: 0 }));

extern "C" {
    static __heap_base: u8; // the end of static data, by the linker
}

/// Ends a call: blocks that are still in use stay for good.
pub fn settle() {
    let s = unsafe { &mut *STATE.0.get() };
    s.floor = s.next;
    s.live = 0;
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let s = &mut *STATE.0.get();
        if s.next == 0 {
            s.next = &__heap_base as *const u8 as usize;
            s.floor = s.next;
        }
        let at = (s.next + layout.align() - 1) & !(layout.align() - 1);
        let end = match at.checked_add(layout.size()) {
            Some(end) => end,
            None => return core::ptr::null_mut(),
        };
        let have = memory_size(0) * PAGE;
        if end > have && memory_grow(0, (end - have + PAGE - 1) / PAGE) == usize::MAX {
            return core::ptr::null_mut();
        }
        s.next = end;
        s.live += 1;
        at as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let s = &mut *STATE.0.get();
        let at = block as usize;
        if at < s.floor {
            return;
        }
        s.live -= 1;
        if s.live == 0 {
            s.next = s.floor;
        } else if at + layout.size() == s.next {
            s.next = at;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let s = &mut *STATE.0.get();
        let at = block as usize;
        if at >= s.floor && at + layout.size() == s.next {
            // The last block grows or shrinks in its place.
            s.next = at;
            s.live -= 1;
            return self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        }
        let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !new.is_null() {
            core::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
            self.dealloc(block, layout);
        }
        new
    }
}
