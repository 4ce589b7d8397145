//! A sequence lock: readers copy a record and never block the writer.
//!
//! The current time is a small record that one writer changes a few times a second and every thread reads all the time,
//! from interrupt handlers too. So readers take no lock: they copy the record between two reads of a sequence number,
//! and copy it again if a writer changed it meanwhile (spec TIM-17). The copy goes word by word through atomics, which
//! makes the race with the writer defined behaviour.
//!
//! # Ground rules
//!
//! - The owner of the cell serialises its writers: [`SeqCell::publish`] needs the [`Writer`], of which there is one.
//! - A reader MUST NOT run on top of the writer, as an interrupt handler of the same CPU would: the reader would wait
//!   for ever. The writer masks all interrupts whose handlers could read.
//!
//! # Cost
//!
//! A read costs one load for each word and two loads of the sequence. A publication costs one store for each word, and
//! two stores of the sequence.

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

#[cfg(all(test, loom))]
mod model;

/// A record of `N` words, which readers copy as a whole.
#[derive(Debug)]
pub struct SeqCell<const N: usize> {
    /// The sequence number, odd during a write.
    sequence: AtomicU64,
    words: [AtomicU64; N],
}

/// The right to publish in one [`SeqCell`].
#[derive(Debug)]
pub struct Writer(());

impl<const N: usize> SeqCell<N> {
    /// Makes a cell that holds `words`, and the right to change it.
    #[must_use]
    pub fn new(words: [u64; N]) -> (Self, Writer) {
        let cell = Self {
            sequence: AtomicU64::new(0),
            words: words.map(AtomicU64::new),
        };
        (cell, Writer(()))
    }

    /// Copies the record; waits while a publication is in progress.
    ///
    /// A thread that loads a value, in any ordering, and then calls this, reads a record at least as new as the one
    /// that was published before the Release store of that value: the sequence is loaded a second time after an acquire
    /// fence.
    #[inline]
    #[must_use]
    pub fn read(&self) -> [u64; N] {
        self.read_first()
    }

    /// Copies the first `M` words of the record; waits while a publication is in progress.
    ///
    /// A record with fewer words fails the build.
    #[inline]
    #[must_use]
    pub fn read_first<const M: usize>(&self) -> [u64; M] {
        self.read_first_and(|_| ()).0
    }

    /// Reads as [`read_first`](Self::read_first) does, and calls `sample` with the copy inside the read section. A
    /// publication that begins before `sample` is over repeats both, so the sample belongs to the record.
    ///
    /// If `sample` reads a counter, the reading SHOULD be ordered before the loads behind it. A counter that the
    /// processor reads later may belong to the next record, by some tens of nanoseconds.
    #[inline(always)]
    pub fn read_first_and<const M: usize, T>(
        &self,
        mut sample: impl FnMut(&[u64; M]) -> T,
    ) -> ([u64; M], T) {
        const { assert!(M <= N, "the record has fewer words") };
        loop {
            // Acquire: pairs with the Release that ends `publish`, so that the words of that publication are seen.
            let before = self.sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                // Relaxed: torn copies are found out below.
                let words = core::array::from_fn(|word| self.words[word].load(Ordering::Relaxed));
                let sampled = sample(&words);
                // The fence keeps the loads above, those of `sample` among them, before the load below; it pairs with
                // the fence in `publish`: a reader that read a word of a later publication, or something that was
                // written behind it, sees that its sequence has begun.
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    return (words, sampled);
                }
            }
            spin_loop();
        }
    }

    /// Returns one word of the record, from this publication or the next one. It is a hint that a full reading has to
    /// confirm.
    ///
    /// A word that does not exist fails the build.
    #[inline]
    #[must_use]
    pub fn peek<const WORD: usize>(&self) -> u64 {
        const { assert!(WORD < N, "the record has fewer words") };
        // Relaxed: nothing is concluded from it but whether a reading is worth it.
        self.words[WORD].load(Ordering::Relaxed)
    }

    /// Replaces the record.
    pub fn publish(&self, _writer: &mut Writer, words: [u64; N]) {
        // Relaxed: there is one writer.
        let before = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(before + 1, Ordering::Relaxed);
        // Keeps the odd number before the words; pairs with the fence in `read`.
        fence(Ordering::Release);
        for (target, word) in self.words.iter().zip(words) {
            target.store(word, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `read`.
        self.sequence.store(before + 2, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_publication_is_read_back_whole() {
        let (cell, mut writer) = SeqCell::new([1, 2, 3]);
        assert_eq!(cell.read(), [1, 2, 3]);
        cell.publish(&mut writer, [4, 5, 6]);
        assert_eq!(cell.read(), [4, 5, 6]);
    }

    #[test]
    fn what_is_sampled_while_the_record_changes_is_sampled_again() {
        let (cell, mut writer) = SeqCell::new([1, 2]);
        let mut samples = 0;
        let (words, sampled) = cell.read_first_and::<1, _>(|&[word]| {
            samples += 1;
            if samples == 1 {
                cell.publish(&mut writer, [3, 4]);
            }
            word
        });
        assert_eq!((words, sampled, samples), ([3], 3, 2));
    }
}
