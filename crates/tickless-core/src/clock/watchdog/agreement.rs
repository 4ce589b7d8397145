//! The check that the copies of a counter on two CPUs agree.
//!
//! Two CPUs send readings to each other through one word of memory, the [`Exchange`]. Each CPU reads its copy after it
//! saw the reading of the other CPU, and checks that its own reading is not less. The time of the transfer does not
//! make the check wrong, because a CPU that sees the word late reads a later value. But it limits the sensitivity: a
//! lag that is shorter than the transfer of the word, a tenth of a microsecond, is not detected. A program that
//! compares readings of two CPUs passes them in a similar way, so it does not see such a lag either.
//!
//! # Ground rules
//!
//! One CPU has the [`Role`] of the first: it opens the exchange, and only this CPU closes it. The second CPU answers.
//! One word holds the turn, the number of the try, and the last reading, so that the three change together. A CPU
//! writes only in its own turn, except that the first CPU may close the exchange instead of waiting longer. So the
//! first CPU stores, and the second CPU uses a compare-exchange: if the first CPU has closed the exchange, the answer
//! is too late and has no effect. A second CPU that is still busy with an earlier try finds another number in the word.
//!
//! Both CPUs may be interrupted anywhere. The waiting side spins, so the host masks preemption if it can, and the
//! number of polls is limited ([`LOOKS`]). A CPU in deep sleep does not answer within that limit. The first CPU does
//! not wait for it, but repeats the try, [`TRIES`] times (spec C-6.6).
//!
//! `model.rs` has the loom cases: an answer that races with the end of the wait, and the order of the exchanged
//! readings.

use tickless_link::sync::{AtomicU64, CachePadded, Ordering};

use super::super::Counter;
use super::verdict::{CounterVerdict, Doubt, Reason};
use crate::cpu::CpuId;
use crate::time::Span;
use crate::time::convert::Cycles;

/// The number of round trips of a reading to the other CPU and back: so many that some of them are as fast as possible.
pub const ROUNDS: u32 = 1_000;
/// The number of polls for the other CPU's answer before a CPU gives up: about 20 µs if a poll takes 20 ns.
pub const LOOKS: u32 = 1_000;
/// The number of tries with a CPU that does not answer (spec C-6.6).
pub const TRIES: u32 = 10;

/// The number of bits of a reading that fit into the word. At 4 GHz they wrap after two years, and a CPU may be late by
/// half of that time.
const VALUE_BITS: u32 = 58;
const VALUE: u64 = (1 << VALUE_BITS) - 1;
const TRY_SHIFT: u32 = VALUE_BITS;
/// The number of values that number the tries before they repeat; larger than the number of tries.
const TRY_MAX: u64 = 1 << 4;
const TURN_SHIFT: u32 = 62;
const _: () = assert!(TRIES as u64 + 1 < TRY_MAX);
const _: () = assert!(TRY_SHIFT + 4 == TURN_SHIFT);
/// The shortest wrap time of a counter that can be checked. With a shorter wrap, a CPU that answers late would look as
/// if its copy lagged.
const WRAP_MIN: Span = Span::from_secs(2 * 3_600);

/// The side whose turn it is, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhoseTurn {
    Over,
    First,
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    turn: WhoseTurn,
    attempt: u64,
    value: u64,
}

impl Word {
    const fn pack(self) -> u64 {
        (self.turn as u64) << TURN_SHIFT | self.attempt << TRY_SHIFT | self.value
    }

    const fn unpack(word: u64) -> Self {
        Self {
            turn: match word >> TURN_SHIFT {
                1 => WhoseTurn::First,
                2 => WhoseTurn::Second,
                _ => WhoseTurn::Over,
            },
            attempt: word >> TRY_SHIFT & (TRY_MAX - 1),
            value: word & VALUE,
        }
    }
}

/// The word through which two CPUs exchange readings of a counter.
#[derive(Debug, Default)]
pub struct Exchange {
    word: CachePadded<AtomicU64>,
}

impl Exchange {
    /// Makes a closed exchange.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The first or the second of the two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The CPU that opens and closes the exchange.
    First,
    /// The CPU that answers.
    Second,
}

/// The readings that a CPU received from the other, each compared with its own next reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The number of readings that arrived.
    pub readings: u32,
    /// The smallest difference, in cycles, between a received reading and this CPU's next own reading: the travel time
    /// of the fastest reading, plus the lead of this CPU's copy. Negative if this copy lags. `None` if no reading
    /// arrived.
    pub nearest: Option<i64>,
}

impl Heard {
    fn hear(&mut self, distance: i64) {
        self.readings = self.readings.saturating_add(1);
        self.nearest = Some(
            self.nearest
                .map_or(distance, |nearest| nearest.min(distance)),
        );
    }
}

/// The result of one poll of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Look {
    /// The other CPU has not answered.
    Waiting,
    /// This CPU answered, and has to poll again.
    Answered,
    /// The exchange is over.
    Over,
}

/// One of the two CPUs in an exchange.
#[derive(Debug)]
pub struct Side<'a> {
    exchange: &'a Exchange,
    role: Role,
    attempt: u64,
    bits: u32,
    rounds: u32,
    heard: Heard,
}

impl<'a> Side<'a> {
    /// Makes the side of `role` in the try `attempt` (from 0, see [`AgreementCheck::attempt`]) of comparing `counter`
    /// over `rounds` rounds.
    #[must_use]
    pub fn new(
        exchange: &'a Exchange,
        role: Role,
        counter: Counter,
        attempt: u32,
        rounds: u32,
    ) -> Self {
        Self {
            exchange,
            role,
            attempt: u64::from(attempt) % TRY_MAX,
            bits: counter.all_bits().count_ones().min(VALUE_BITS),
            rounds: rounds.max(1),
            heard: Heard::default(),
        }
    }

    /// Runs the exchange to its end: opens it if this is the first CPU, and polls at most `looks` times for each
    /// answer. `read` must read the counter after all loads before it: on x86-64, an ordered read of the time-stamp
    /// counter. Returns the readings received.
    ///
    /// # Errors
    ///
    /// The other CPU did not answer, or did not open.
    pub fn run(mut self, looks: u32, mut read: impl FnMut() -> Cycles) -> Result<Heard, Heard> {
        if self.role == Role::First {
            self.open(&mut read);
        }
        let mut left = looks;
        loop {
            match self.look(&mut read) {
                Look::Over => {
                    // The second finds a closed exchange too if the first gave up, or has not come yet.
                    let is_whole = self.heard.readings >= self.rounds || self.role == Role::First;
                    if is_whole {
                        return Ok(self.heard);
                    }
                    if left == 0 {
                        return Err(self.heard);
                    }
                }
                Look::Answered => {
                    left = looks;
                    continue;
                }
                Look::Waiting if left > 0 => {}
                Look::Waiting => {
                    if self.role == Role::Second || self.close() {
                        return Err(self.heard);
                    }
                    // The answer came at the last moment.
                    continue;
                }
            }
            left = left.saturating_sub(1);
            tickless_link::sync::spin_loop();
        }
    }

    /// Opens the exchange: the first CPU sends its first reading.
    pub fn open(&mut self, read: impl FnOnce() -> Cycles) {
        let word = self.word(WhoseTurn::Second, read());
        // Release: pairs with the acquire load of the second's look, so that what that CPU reads then is after.
        self.exchange.word.store(word.pack(), Ordering::Release);
    }

    /// Polls the exchange, and if it is this side's turn, reads the counter and sends the reading.
    pub fn look(&mut self, read: impl FnOnce() -> Cycles) -> Look {
        // Acquire: pairs with the release of the other side, so that the counter is read after the other's reading.
        let packed = self.exchange.word.load(Ordering::Acquire);
        let word = Word::unpack(packed);
        let mine = match self.role {
            Role::First => WhoseTurn::First,
            Role::Second => WhoseTurn::Second,
        };
        if word.turn == WhoseTurn::Over || word.attempt != self.attempt {
            return Look::Over;
        }
        if word.turn != mine {
            return Look::Waiting;
        }
        let now = read();
        self.heard.hear(self.distance(word.value, now));
        if self.role == Role::First {
            let is_done = self.heard.readings >= self.rounds;
            let turn = if is_done {
                WhoseTurn::Over
            } else {
                WhoseTurn::Second
            };
            // Release: as in `open`. A store: in the turn of the first no other CPU writes.
            self.exchange
                .word
                .store(self.word(turn, now).pack(), Ordering::Release);
            return if is_done { Look::Over } else { Look::Answered };
        }
        let answer = self.word(WhoseTurn::First, now).pack();
        // Release: as in `open`. Relaxed if the first closed: nothing is read after that.
        let exchanged = self.exchange.word.compare_exchange(
            packed,
            answer,
            Ordering::Release,
            Ordering::Relaxed,
        );
        exchanged.map_or(Look::Over, |_| Look::Answered)
    }

    /// Closes the exchange, so that the first CPU gives up. Returns `false` if the answer has arrived meanwhile.
    pub fn close(&mut self) -> bool {
        // Relaxed: what is compared below decides.
        let packed = self.exchange.word.load(Ordering::Relaxed);
        let word = Word::unpack(packed);
        if word.turn != WhoseTurn::Second {
            return false;
        }
        let closed = Word {
            turn: WhoseTurn::Over,
            ..word
        };
        // Relaxed: it hands nothing over.
        let exchanged = self.exchange.word.compare_exchange(
            packed,
            closed.pack(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        exchanged.is_ok()
    }

    /// Returns the readings that arrived so far.
    #[must_use]
    pub const fn heard(&self) -> Heard {
        self.heard
    }

    fn word(&self, turn: WhoseTurn, now: Cycles) -> Word {
        Word {
            turn,
            attempt: self.attempt,
            value: now.0 & (u64::MAX >> (64 - self.bits)),
        }
    }

    /// Returns the distance from `value` to `now`, modulo the counter's width.
    const fn distance(&self, value: u64, now: Cycles) -> i64 {
        let unused = 64 - self.bits;
        // Shifted up, the sign of the difference is that of the word; shifted down again, it is kept.
        (now.0.wrapping_sub(value) << unused).cast_signed() >> unused
    }
}

/// The result of a try of an agreement check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AgreementStep {
    /// A CPU did not answer, so the check needs another try, with the next number.
    Again,
    /// The check is over.
    Done(CounterVerdict),
}

/// The check of a counter's copies on two CPUs, try by try.
#[derive(Clone, Debug)]
pub struct AgreementCheck {
    counter: Counter,
    first: CpuId,
    second: CpuId,
    attempt: u32,
}

impl AgreementCheck {
    /// Makes a check of the copies of `counter` on two CPUs.
    #[must_use]
    pub const fn new(counter: Counter, first: CpuId, second: CpuId) -> Self {
        Self {
            counter,
            first,
            second,
            attempt: 0,
        }
    }

    /// Returns the number, from 0 on, of the next try to exchange readings with the other CPU.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Evaluates the readings that both sides received in a try. A side is `Err` if it gave up, as [`Side::run`]
    /// returns it.
    pub fn feed(
        &mut self,
        first: Result<Heard, Heard>,
        second: Result<Heard, Heard>,
    ) -> AgreementStep {
        let of = |side: Result<Heard, Heard>| side.unwrap_or_else(|heard| heard).nearest;
        if u128::from(WRAP_MIN.as_nanos()) > self.wrap() {
            let bits = self.counter.bits;
            return AgreementStep::Done(CounterVerdict::Inconclusive(Doubt::Narrow { bits }));
        }
        for (nearest, cpu, behind) in [
            (of(first), self.first, self.second),
            (of(second), self.second, self.first),
        ] {
            // A lag is one, also in a try that came to no end.
            if let Some(by) = nearest.filter(|nearest| *nearest < 0) {
                let by = self.counter.frequency.nanos_in(by.unsigned_abs().into());
                let by = Span::from_nanos(u64::try_from(by).unwrap_or(u64::MAX));
                return AgreementStep::Done(CounterVerdict::Bad(Reason::Lags { cpu, behind, by }));
            }
        }
        // The second side leaves when the first has all it wants, or gave up: the first knows which.
        if first.is_ok() {
            return AgreementStep::Done(CounterVerdict::Good {
                ppm: 0,
                within_ppm: 0,
            });
        }
        self.attempt += 1;
        if self.attempt <= TRIES {
            return AgreementStep::Again;
        }
        let (cpu, tries) = (self.second, core::mem::take(&mut self.attempt));
        AgreementStep::Done(CounterVerdict::Inconclusive(Doubt::NoAnswer { cpu, tries }))
    }

    fn wrap(&self) -> u128 {
        let values = u128::from(self.counter.all_bits().min(VALUE)) + 1;
        self.counter.frequency.nanos_in(values)
    }
}
