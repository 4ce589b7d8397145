//! Memory that is given out and never taken back: a kernel that runs its tests once and ends needs no more.
//!
//! # Safety
//!
//! *Fresh*: the memory between the two symbols of the layout is used by this allocator alone, and each
//! address is given out once.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    static __heap_start: u8;
    static __heap_end: u8;
}

struct Heap {
    /// The number of bytes that are given out.
    used: AtomicUsize,
}

#[global_allocator]
static HEAP: Heap = Heap {
    used: AtomicUsize::new(0),
};

// SAFETY: *fresh*.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = ptr::addr_of!(__heap_start);
        let room = ptr::addr_of!(__heap_end).addr() - start.addr();
        let align = layout.align().max(16);
        let place = |used: usize| used.next_multiple_of(align);
        let take = |used: usize| {
            let end = place(used).checked_add(layout.size())?;
            (end <= room).then_some(end)
        };
        // Relaxed: the addresses are all that it orders. A CPU that gets at what another one wrote there finds the way
        // by itself.
        match self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        {
            // SAFETY: within the memory of *fresh*.
            Ok(used) => unsafe { start.cast_mut().add(place(used)) },
            Err(_) => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _place: *mut u8, _layout: Layout) {}
}

/// Returns the upper end of a stack of `size` bytes.
pub(crate) fn stack(size: usize) -> usize {
    let layout = Layout::from_size_align(size, 4096).unwrap_or(Layout::new::<u128>());
    // SAFETY: the size is not zero.
    let bottom = NonNull::new(unsafe { alloc::alloc::alloc(layout) });
    bottom.map_or(0, |bottom| bottom.addr().get() + layout.size())
}
