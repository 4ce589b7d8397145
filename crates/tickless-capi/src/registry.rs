//! The set of structures that a thread has initialised and not destroyed.
//!
//! A signal handler may initialise a timer while it interrupts `malloc`, so the set takes its memory from the system. A
//! table of addresses doubles when it is half full. An address stands at the index of its hash or behind, with no empty
//! index in between.
//!
//! A debug build also stores the place in the program where each structure was initialised. At the beginning of every
//! turn it checks that the memory of each pending structure is intact. A pending structure is still in a queue of the
//! library. So if its memory was freed or overwritten, the check prints where the structure was initialised and ends
//! the process. A release build does neither, because both cost time for each timer, and memory of the allocator.
//!
//! # Invariant
//!
//! **Mapped**: `start` is a mapping of `length` words, which the table alone uses; `length` is zero before the first
//! structure, and a power of two afterwards.

use std::cell::RefCell;
use std::ptr::NonNull;

use crate::errno::Errno;

/// The structures that one thread has initialised and not destroyed, by address.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    known: RefCell<Table>,
    #[cfg(debug_assertions)]
    details: RefCell<std::collections::HashMap<usize, debug::Known>>,
}

impl Registry {
    /// Adds the structure at `address`, which is being initialised with the word `magic`. Fails with [`Errno::BUSY`] if
    /// the structure was initialised already, and with [`Errno::NOMEM`] if the system has no memory for the table.
    pub(crate) fn admit(&self, address: usize, magic: u64) -> Result<(), Errno> {
        let is_new = self.known.borrow_mut().insert(address)?;
        #[cfg(debug_assertions)]
        if is_new {
            let structure = debug::Known::new(magic);
            self.details.borrow_mut().insert(address, structure);
        } else if let Some(structure) = self.details.borrow().get(&address) {
            structure.report_again(address);
        }
        // A release build does not look for it.
        let _ = magic;
        if is_new { Ok(()) } else { Err(Errno::BUSY) }
    }

    /// Removes a structure, which is being destroyed.
    pub(crate) fn forget(&self, address: usize) {
        self.known.borrow_mut().remove(address);
        #[cfg(debug_assertions)]
        self.details.borrow_mut().remove(&address);
    }

    /// Calls `visit` with the address of each structure.
    pub(crate) fn for_each(&self, visit: impl FnMut(usize)) {
        let known = self.known.borrow();
        let addresses = known.words().iter().copied();
        addresses.filter(|word| *word != 0).for_each(visit);
    }

    /// Notes whether a structure is pending.
    #[cfg(debug_assertions)]
    pub(crate) fn set_pending(&self, address: usize, is_pending: bool) {
        if let Some(structure) = self.details.borrow_mut().get_mut(&address) {
            structure.is_pending = is_pending;
        }
    }

    /// Ends the process if the memory of a pending structure was freed or overwritten.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        for (address, structure) in &*self.details.borrow() {
            structure.check(*address);
        }
    }
}

/// A set of addresses that are not zero.
#[derive(Debug)]
struct Table {
    start: NonNull<usize>,
    length: usize,
    /// The number of addresses.
    count: usize,
}

/// The length of the first table: a page of memory.
const FIRST_LENGTH: usize = 512;

impl Default for Table {
    fn default() -> Self {
        Self {
            start: NonNull::dangling(),
            length: 0,
            count: 0,
        }
    }
}

impl Table {
    /// Makes an empty table.
    fn map(length: usize) -> Result<Self, Errno> {
        let size = length.checked_mul(size_of::<usize>()).ok_or(Errno::NOMEM)?;
        // SAFETY: new memory, of no file.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Errno::NOMEM);
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self {
            start,
            length,
            count: 0,
        })
    }

    fn words(&self) -> &[usize] {
        // SAFETY: Mapped; the system fills new memory with zeros.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    fn words_mut(&mut self) -> &mut [usize] {
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Returns the index at which the search for an address begins.
    fn home(&self, address: usize) -> usize {
        // The golden ratio, as usual; its product is best in the upper half.
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(hash).unwrap_or(0) & (self.length - 1)
    }

    /// Returns the index of an address, or the empty index at which it belongs. The table is not full.
    fn index(&self, address: usize) -> Result<usize, usize> {
        let words = self.words();
        let mut index = self.home(address);
        loop {
            match words[index] {
                0 => return Err(index),
                word if word == address => return Ok(index),
                _ => index = (index + 1) & (self.length - 1),
            }
        }
    }

    /// Adds an address. Returns false if it was in the table.
    fn insert(&mut self, address: usize) -> Result<bool, Errno> {
        if self.count * 2 >= self.length {
            let mut larger = Self::map((self.length * 2).max(FIRST_LENGTH))?;
            for known in self.words().iter().filter(|word| **word != 0) {
                larger.put(*known);
            }
            *self = larger;
        }
        Ok(self.put(address))
    }

    /// Adds an address to a table that is not full. Returns false if it was in the table.
    fn put(&mut self, address: usize) -> bool {
        let Err(empty) = self.index(address) else {
            return false;
        };
        self.words_mut()[empty] = address;
        self.count += 1;
        true
    }

    /// Removes an address, and moves those behind it to where a search finds them.
    fn remove(&mut self, address: usize) {
        if self.length == 0 {
            return;
        }
        let Ok(mut hole) = self.index(address) else {
            return;
        };
        let mask = self.length - 1;
        self.count -= 1;
        let mut index = hole;
        loop {
            self.words_mut()[hole] = 0;
            // The next one whose search passes the hole.
            let moved = loop {
                index = (index + 1) & mask;
                let word = self.words()[index];
                let passed = index.wrapping_sub(self.home(word)) & mask;
                if word == 0 || passed >= index.wrapping_sub(hole) & mask {
                    break word;
                }
            };
            self.words_mut()[hole] = moved;
            if moved == 0 {
                return;
            }
            hole = index;
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.length != 0 {
            // SAFETY: Mapped, and no reference to a word outlives its call.
            let _unmapped =
                unsafe { libc::munmap(self.start.as_ptr().cast(), size_of_val(self.words())) };
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
    use std::sync::atomic::Ordering;

    #[derive(Debug)]
    pub(super) struct Known {
        magic: u64,
        initialised: Backtrace,
        pub(super) is_pending: bool,
    }

    impl Known {
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
            let word = unsafe {
                &(*ptr::with_exposed_provenance::<crate::structure::Structure>(address)).magic
            };
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Table;

    #[test]
    fn the_table_holds_what_a_set_of_the_standard_library_holds() {
        let (mut table, mut model) = (Table::default(), HashSet::new());
        let mut seed = 1_usize;
        for step in 0..200_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Few addresses at first, so that most calls meet one that is known; more than two tables hold later.
            let address = ((seed >> 33) % (8 + step / 50) + 1) * 64;
            if seed >> 63 == 0 {
                assert_eq!(table.insert(address).unwrap(), model.insert(address));
            } else {
                table.remove(address);
                model.remove(&address);
            }
            assert_eq!(table.count, model.len());
        }
        assert!(table.length > super::FIRST_LENGTH, "{}", table.length);
        let held: HashSet<usize> = table
            .words()
            .iter()
            .copied()
            .filter(|word| *word != 0)
            .collect();
        assert_eq!(held, model);
        assert!(model.iter().all(|address| table.index(*address).is_ok()));
    }
}
