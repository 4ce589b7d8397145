//! A record in two copies, which a reader can read even if it interrupted the writer.
//!
//! A reader of a [`SeqCell`](crate::seqlock::SeqCell) waits while the writer is inside. There a reader that interrupts
//! the writer would wait for ever (B38). Such a reader is an interrupt that no CPU can mask, a signal handler, or a
//! debugger. A [`LatchCell`] keeps the record twice. The writer changes the copy that no reader is sent to, flips the
//! low bit of a sequence number, and changes the other copy. Readers take the copy that the bit selects, and try again
//! only if the number changed while they copied (spec TIM-18). The number cannot change during a read that interrupted
//! the writer.
//!
//! # Ground rules
//!
//! - The owner of the cell serialises its writers: [`LatchCell::publish`] needs the [`LatchWriter`], of which there is
//!   one.
//! - Readers may run anywhere. A reader that interrupted the writer gets a whole record: the one before the
//!   publication, or the one after it (B51).
//! - A reader that runs while a publication is under way may get the old record, although another reader that began
//!   earlier got the new record. So a value that is computed from the record may run backwards by as much as the two
//!   records differ.
//!
//! # Cost
//!
//! A read costs one load for each word and two loads of the sequence, without a branch on whether a writer is inside. A
//! publication costs two stores for each word, and two stores of the sequence.

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

#[cfg(all(test, loom))]
mod model;

/// A record of `N` words, in two copies.
#[derive(Debug)]
pub struct LatchCell<const N: usize> {
    /// Number of changes so far; its low bit says which copy readers take.
    sequence: AtomicU64,
    copies: [[AtomicU64; N]; 2],
}

/// The right to publish in one [`LatchCell`].
#[derive(Debug)]
pub struct LatchWriter(());

impl<const N: usize> LatchCell<N> {
    /// Makes a cell that holds `words`, and the right to change it.
    #[must_use]
    pub fn new(words: [u64; N]) -> (Self, LatchWriter) {
        let cell = Self {
            sequence: AtomicU64::new(0),
            copies: [words.map(AtomicU64::new), words.map(AtomicU64::new)],
        };
        (cell, LatchWriter(()))
    }

    /// Copies the record, and returns the copy with the result of `sample` for it. If the writer sends readers to the
    /// other copy before `sample` has returned, both are repeated. That happens only while another CPU publishes again
    /// and again: a reader that interrupted the writer succeeds at its first attempt.
    #[inline]
    pub fn read_and<T>(&self, mut sample: impl FnMut(&[u64; N]) -> T) -> ([u64; N], T) {
        loop {
            // Acquire: pairs with the Release stores of `flip`, so that the words of the copy that this number sends
            // readers to are seen.
            let before = self.sequence.load(Ordering::Acquire);
            let copy = &self.copies[usize::from(!before.is_multiple_of(2))];
            // Relaxed: torn copies are found out below.
            let words = core::array::from_fn(|word| copy[word].load(Ordering::Relaxed));
            let sampled = sample(&words);
            // The fence keeps the loads above before the load below; it pairs with the fence in `flip`: a reader that
            // read a word of a later publication sees that readers were sent away from this copy first.
            fence(Ordering::Acquire);
            if self.sequence.load(Ordering::Relaxed) == before {
                return (words, sampled);
            }
            spin_loop();
        }
    }

    /// The record alone.
    #[cfg(test)]
    fn read(&self) -> [u64; N] {
        self.read_and(|_| ()).0
    }

    /// Replaces the record.
    pub fn publish(&self, writer: &mut LatchWriter, words: [u64; N]) {
        self.publish_observed(writer, words, || {});
    }

    /// Publishes as [`publish`](Self::publish) does, and calls `between` after each of its stores, where an interrupt
    /// could read.
    fn publish_observed(
        &self,
        _writer: &mut LatchWriter,
        words: [u64; N],
        mut between: impl FnMut(),
    ) {
        for copy in &self.copies {
            // Sends readers to the other copy, which holds the record before, and then the new one.
            self.flip();
            between();
            for (target, word) in copy.iter().zip(words) {
                // Relaxed: the fence in `flip` stands before it, the Release of the next `flip` after it.
                target.store(word, Ordering::Relaxed);
                between();
            }
        }
    }

    /// Sends readers to the other copy, before the first word of this one changes.
    fn flip(&self) {
        // Relaxed: there is one writer.
        let before = self.sequence.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in `read_and`; the copy that readers are sent to is finished.
        self.sequence.store(before + 1, Ordering::Release);
        // Keeps the number before the words; pairs with the fence in `read_and`.
        fence(Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_publication_is_read_back_whole() {
        let (cell, mut writer) = LatchCell::new([1, 2, 3]);
        assert_eq!(cell.read(), [1, 2, 3]);
        for base in [4, 7, 10] {
            cell.publish(&mut writer, [base, base + 1, base + 2]);
            assert_eq!(cell.read(), [base, base + 1, base + 2]);
        }
    }

    /// B38, B51: a reader on top of the writer, at each of its stores, waits for nothing and gets a whole record, and
    /// no older one after a newer one.
    #[test]
    fn b38_a_reader_on_top_of_the_writer_gets_a_whole_record() {
        let (cell, mut writer) = LatchCell::new([0, 0, 0]);
        for round in 1..4 {
            let mut seen = Vec::new();
            cell.publish_observed(&mut writer, [round; 3], || seen.push(cell.read()));
            assert_eq!(seen.len(), 8);
            assert_eq!(seen[0], [round - 1; 3]);
            assert_eq!(seen[7], [round; 3]);
            assert!(
                seen.iter()
                    .all(|words| words.iter().all(|word| *word == words[0]))
            );
            assert!(seen.is_sorted());
        }
    }
}
