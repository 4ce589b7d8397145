//! Prefetching of memory before it is needed.

use crate::entry::{Family, Link};

/// Hints to the processor to fetch an entry that is going to be read soon. A hint: it reads nothing, and changes
/// nothing.
#[inline]
pub(crate) fn prefetch<F: Family>(link: Link<F>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(entry) = link {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        use crate::entry::Raw;

        let first = entry.as_ptr().cast::<i8>().cast_const();
        // SAFETY: prefetching reads nothing as far as a program can tell, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first) };
        // An entry need not begin where a line does.
        let last = first.wrapping_add(size_of::<Raw<F>>() - 1);
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(last) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = link;
}
