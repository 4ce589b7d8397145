//! The list of structures that a thread has initialised and not destroyed.
//!
//! A debug build also stores the place in the program where each structure was initialised. At the beginning of every
//! turn it checks that the memory of each pending structure is intact. A pending structure is still in a queue of the
//! library. So if its memory was freed or overwritten, the check prints where the structure was initialised and ends
//! the process. A release build does neither, because both cost time for each timer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::errno::Errno;

/// The structures that one thread has initialised and not destroyed, by address.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    known: RefCell<HashMap<usize, Structure>>,
}

/// The data of one structure; a release build stores none.
#[derive(Debug)]
struct Structure {
    #[cfg(debug_assertions)]
    debug: debug::Structure,
}

impl Registry {
    /// Adds the structure at `address`, which is being initialised with the word `magic`. Fails with [`Errno::BUSY`] if
    /// the structure was initialised already.
    pub(crate) fn admit(&self, address: usize, magic: u64) -> Result<(), Errno> {
        match self.known.borrow_mut().entry(address) {
            Entry::Occupied(_known) => {
                #[cfg(debug_assertions)]
                _known.get().debug.report_again(address);
                Err(Errno::BUSY)
            }
            Entry::Vacant(unknown) => {
                let structure = Structure {
                    #[cfg(debug_assertions)]
                    debug: debug::Structure::new(magic),
                };
                // A release build does not look for it.
                let _ = magic;
                unknown.insert(structure);
                Ok(())
            }
        }
    }

    /// Removes a structure, which is being destroyed.
    pub(crate) fn forget(&self, address: usize) {
        self.known.borrow_mut().remove(&address);
    }

    /// Notes whether a structure is pending.
    #[cfg(debug_assertions)]
    pub(crate) fn set_pending(&self, address: usize, is_pending: bool) {
        if let Some(structure) = self.known.borrow_mut().get_mut(&address) {
            structure.debug.is_pending = is_pending;
        }
    }

    /// Ends the process if the memory of a pending structure was freed or overwritten.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        for (address, structure) in &*self.known.borrow() {
            structure.debug.check(*address);
        }
    }
}

#[cfg(debug_assertions)]
mod debug {
    //! The additional checks of a debug build.
    #![expect(
        clippy::print_stderr,
        reason = "a C program has no other way to learn which call was wrong"
    )]

    use std::backtrace::Backtrace;
    use std::ptr;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug)]
    pub(super) struct Structure {
        magic: u64,
        initialised: Backtrace,
        pub(super) is_pending: bool,
    }

    impl Structure {
        pub(super) fn new(magic: u64) -> Self {
            Self {
                magic,
                initialised: Backtrace::force_capture(),
                is_pending: false,
            }
        }

        pub(super) fn report_again(&self, address: usize) {
            eprintln!(
                "tickless: the structure at {address:#x} is initialised and not destroyed. \
                 First here:\n{}\nagain here:\n{}",
                self.initialised,
                Backtrace::force_capture(),
            );
        }

        pub(super) fn check(&self, address: usize) {
            if !self.is_pending {
                return;
            }
            // SAFETY: the caller of the initialisation promised that the memory stays until the structure is destroyed.
            // Should it be gone, the process ends here, which is what a debug build is to do.
            let word = unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(address) };
            // Relaxed: pairs with nothing. The thread of the timer wrote it.
            if word.load(Ordering::Relaxed) != self.magic {
                eprintln!(
                    "tickless: the timer at {address:#x} was pending when its memory was freed or overwritten. It was \
                     initialised here:\n{}",
                    self.initialised
                );
                std::process::abort();
            }
        }
    }
}
