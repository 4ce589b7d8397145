//! The published record, in words, and the computation of the time from it.

use crate::clock::CounterId;
use crate::time::Instant;
use crate::time::convert::{Cycles, Reverse, Scale};

/// The value that stands for "no counter", while no counter drives the time.
pub(super) const NO_COUNTER: u64 = u64::MAX;

/// The published record of the time.
///
/// The words of the record are in the order of their use. A reading of the clock takes the first [`FAST`](Self::FAST)
/// words. A reading that also needs the identity of the counter takes one word more. A device that compares with the
/// counter takes the first [`COUPLED`](Self::COUPLED) words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// The mask of the counter; 0 while the machine is suspended, so that no time passes, whatever the counter shows
    /// (spec TIM-37).
    pub(super) mask: u64,
    pub(super) base_cycles: Cycles,
    pub(super) scale: Scale,
    pub(super) residue: u64,
    pub(super) base: Instant,
    pub(super) max_cycles: u64,
    pub(super) counter: Option<CounterId>,
    pub(super) reverse: Reverse,
    pub(super) sequence: u64,
    pub(super) realtime: i64,
    pub(super) boottime: i64,
    pub(super) tai: i64,
    pub(super) next_leap: Instant,
}

impl Record {
    pub(super) const WORDS: usize = 14;
    pub(super) const FAST: usize = 6;
    pub(super) const BASE_CYCLES: usize = 1;
    pub(super) const COUNTER: usize = 6;
    pub(super) const WITH_COUNTER: usize = Self::FAST + 1;
    pub(super) const COUPLED: usize = 9;

    pub(super) fn words(&self) -> [u64; Self::WORDS] {
        [
            self.mask,
            self.base_cycles.0,
            pack(self.scale.mult(), self.scale.shift()),
            self.residue,
            self.base.as_nanos().cast_unsigned(),
            self.max_cycles,
            self.counter.map_or(NO_COUNTER, |id| u64::from(id.0)),
            pack(self.reverse.mult(), self.reverse.shift()),
            self.reverse.max().as_nanos(),
            self.sequence,
            self.realtime.cast_unsigned(),
            self.boottime.cast_unsigned(),
            self.tai.cast_unsigned(),
            self.next_leap.as_nanos().cast_unsigned(),
        ]
    }

    /// Returns the words that a reading of the clock needs, with the identity of the counter.
    pub(super) fn with_counter(&self) -> [u64; Self::WITH_COUNTER] {
        let [
            mask,
            base_cycles,
            scale,
            residue,
            base,
            max_cycles,
            counter,
            ..,
        ] = self.words();
        [mask, base_cycles, scale, residue, base, max_cycles, counter]
    }

    /// Samples the counter that a record names. While the machine is suspended the record names no counter; then the
    /// result is the base, so that no cycles have passed.
    #[inline]
    pub(super) fn sample(
        words: &[u64; Self::WITH_COUNTER],
        read: impl FnOnce(CounterId) -> Cycles,
    ) -> Cycles {
        let id = u32::try_from(words[Self::COUNTER]);
        id.map_or(Cycles(words[Self::BASE_CYCLES]), |id| read(CounterId(id)))
    }
}

#[inline]
const fn pack(mult: u32, shift: u32) -> u64 {
    (shift as u64) << 32 | mult as u64
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "each half was packed from 32 bits"
)]
pub(super) const fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// An unusual case of a reading, which is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Irregular {
    /// The counter was behind the base.
    Behind,
    /// The counter was further ahead than the fast path can multiply.
    Ahead,
}

/// Returns the nanoseconds since the base of the record, for a counter that shows `now` (spec TIM-15). `notice` is
/// called in an unusual case.
#[inline(always)]
pub(super) fn elapsed(
    [mask, base_cycles, scale, residue, _, max_cycles]: [u64; Record::FAST],
    now: Cycles,
    notice: impl FnOnce(Irregular),
) -> u64 {
    let (mult, shift) = unpack(scale);
    let delta = now.0.wrapping_sub(base_cycles) & mask;
    // One comparison finds both what is behind and what is too far ahead (spec TIM-16).
    if delta <= max_cycles {
        return (delta * u64::from(mult) + residue) >> shift;
    }
    let (nanos, what) = elapsed_slow(delta, mask, Scale::from_parts(mult, shift), residue);
    notice(what);
    nanos
}

#[cold]
fn elapsed_slow(delta: u64, mask: u64, scale: Scale, residue: u64) -> (u64, Irregular) {
    if delta > mask / 2 {
        // Another CPU's counter lags. Time stands still rather than run backwards.
        return (scale.cycles_to_nanos(Cycles(0), residue), Irregular::Behind);
    }
    (
        scale.cycles_to_nanos_wide(Cycles(delta), residue),
        Irregular::Ahead,
    )
}

#[inline]
pub(super) fn after(base: u64, nanos: u64) -> Instant {
    let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
    Instant::from_nanos(base.cast_signed().saturating_add(nanos))
}

/// Returns the value of `counter` at which the clock reaches `when`, according to these words (spec CPL-4).
#[inline]
pub(super) fn cycles_at(
    [
        mask,
        base_cycles,
        scale,
        residue,
        base,
        _,
        id,
        reverse,
        reverse_max,
    ]: [u64; Record::COUPLED],
    counter: CounterId,
    when: Instant,
) -> Option<Cycles> {
    if id != u64::from(counter.0) {
        return None;
    }
    let (_, shift) = unpack(scale);
    let base = after(base, residue >> shift);
    let reverse = Reverse::from_words(unpack(reverse), reverse_max);
    Some(reverse.cycles_at(when, base, Cycles(base_cycles), mask))
}
