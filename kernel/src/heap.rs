//! The allocator of the kernel, which never frees memory: a kernel that runs its tests once and ends needs no more.
//! With the conformance suites, which make thousands of machines, freed blocks are allocated again.
//!
//! # Safety
//!
//! *Fresh*: the memory between the two symbols of the layout is used by this allocator alone, and each address is
//! allocated once. *Freed*: no code uses a freed block, and its first word links it to the next free block of the same
//! size until it is allocated again.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    static __heap_start: u8;
    static __heap_end: u8;
}

struct Heap {
    /// The number of bytes that are allocated.
    used: AtomicUsize,
}

#[global_allocator]
static HEAP: Heap = Heap {
    used: AtomicUsize::new(0),
};

// SAFETY: *fresh*.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        #[cfg(feature = "conformance")]
        let layout = freed::rounded(layout);
        #[cfg(feature = "conformance")]
        if let Some(place) = freed::take(layout.size()) {
            return place;
        }
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

    unsafe fn dealloc(&self, _place: *mut u8, _layout: Layout) {
        #[cfg(feature = "conformance")]
        freed::leave(_place, freed::rounded(_layout).size());
    }
}

/// Keeps freed blocks by their size: a power of two.
#[cfg(feature = "conformance")]
mod freed {
    use core::alloc::Layout;
    use core::ptr;

    use tickless_core::link::lock::Lock;

    use crate::lock::MaskingLock;

    /// The first block of each size, as an address; 0 for none.
    static FIRST: Lock<MaskingLock, [usize; 64]> = Lock::new(MaskingLock::new(), [0; 64]);

    /// Rounds a layout so that each block of its size suits it.
    pub(super) fn rounded(layout: Layout) -> Layout {
        let size = layout
            .size()
            .max(layout.align())
            .max(16)
            .next_power_of_two();
        Layout::from_size_align(size, size.min(4096)).unwrap_or(layout)
    }

    /// Takes a free block of `size` bytes, if one exists.
    pub(super) fn take(size: usize) -> Option<*mut u8> {
        let mut first = FIRST.lock(None);
        let first = &mut first[size.trailing_zeros() as usize];
        let place: *mut u8 = ptr::with_exposed_provenance_mut(*first);
        if place.is_null() {
            return None;
        }
        // SAFETY: *freed*.
        *first = unsafe { place.cast::<usize>().read() };
        Some(place)
    }

    /// Keeps a freed block of `size` bytes for the next allocation of this size.
    pub(super) fn leave(place: *mut u8, size: usize) {
        let mut first = FIRST.lock(None);
        let first = &mut first[size.trailing_zeros() as usize];
        // SAFETY: *freed*.
        unsafe { place.cast::<usize>().write(*first) };
        *first = place.expose_provenance();
    }
}
