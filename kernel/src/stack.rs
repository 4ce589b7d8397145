//! Memory for stacks, which is never freed.

use core::alloc::Layout;
use core::ptr::NonNull;

/// Returns the upper end of a stack of `size` bytes.
pub(crate) fn stack(size: usize) -> usize {
    let layout = Layout::from_size_align(size, 4096).unwrap_or(Layout::new::<u128>());
    // SAFETY: the size is not zero.
    let bottom = NonNull::new(unsafe { alloc::alloc::alloc(layout) });
    bottom.map_or(0, |bottom| bottom.addr().get() + layout.size())
}
