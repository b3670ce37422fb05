//! The allocator of a module: a bump allocator that is reset when a call has freed its last block. Calls are short and
//! keep nothing, so this suffices, and an instance without large inputs stays within the one page of memory that it
//! starts with, which a general allocator could not use completely.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::UnsafeCell;

const PAGE: usize = 64 << 10;

/// The module's memory after its static data.
pub struct Heap;

struct State {
    floor: usize, // blocks below this address are never freed
    next: usize,  // address of the next block; 0 before the first
    live: usize,  // number of blocks above floor
}

struct Shared(UnsafeCell<State>);

// SAFETY: a module has no threads.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(State { floor: 0, next: 0, live: 0 }));

extern "C" {
    static __heap_base: u8; // end of static data, defined by the linker
}

/// Ends a call: makes the blocks that are still in use permanent.
pub fn keep_live_blocks() {
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
            // The last block grows or shrinks in place.
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
