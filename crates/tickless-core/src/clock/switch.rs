//! The change of the counter that drives a clock. Readers read one counter inline, so they must detect that another
//! counter drives the clock.
//!
//! The fast path of a clock reads its counter by a few instructions in the reader itself, without a call. The result is
//! right only while the counter that these instructions read drives the time, because the values of two counters are
//! not related. So a guard protects the fast path, and a counter is replaced in such an order that no reader reads one
//! counter and uses the record of another (spec ).
//!
//! # Invariant
//!
//! **Guard on, so the counter is the inlined one** (spec TIM-44): if a reader finds the guard on and then copies the
//! record, the counter of this record has the value of the inlined read.
//!
//! # The order of a switch (spec TIM-43)
//!
//! 1. If the counter drives the time already, nothing is done.
//! 2. The guard is turned off, and the switch waits until every reading that may have found the guard on has ended.
//! 3. All CPUs stop. The time is advanced by the old counter, the new counter is installed and published, and the CPUs
//!    continue.
//! 4. The guard is turned on, if the *published* counter is the new counter and can be read inline.
//! 5. The ticks are notified.
//!
//! # Ground rules
//!
//! The host serialises switches and its other operations on the [`Keeper`]: all of them borrow the keeper mutably. A
//! reader may run anywhere, as for [`Timekeeper`]. While a [`GuardedClock`] is in use its counter MUST be replaced by
//! [`GuardedClock::switch`] alone.
//!
//! # Cost
//!
//! A reading costs one load and one branch more than a reading of a [`Timekeeper`], and no call while the guard is on.
//! A kernel may patch the branch instead of reading the guard; the order of a switch is the same.

use tickless_link::sync::{AtomicU8, Ordering};

use super::CounterId;
use super::counter::{BadCounter, Counter};
use super::timekeeper::{Keeper, Timekeeper};
use super::{Offsets, SetSequence};
use crate::time::Instant;
use crate::time::convert::Cycles;

#[cfg(all(test, loom))]
mod model;

const OFF: u8 = 0;
const ON: u8 = 1;

/// The guard, on while the inlined read may be used.
#[derive(Debug)]
struct Guard {
    mode: AtomicU8,
}

/// The steps of a switch. [`Guard::switch`] calls them in order.
trait Steps {
    /// Waits until every reading that may have found the guard on has ended.
    fn see_off(&mut self);
    /// Stops all CPUs, installs and publishes the counter, and lets the CPUs continue. Returns true if the counter was
    /// installed.
    fn install(&mut self) -> bool;
    /// Returns true if the published counter is the new counter and the inlined read reads it.
    fn may_inline(&mut self) -> bool;
    /// Notifies the ticks.
    fn tell(&mut self);
}

impl Guard {
    fn new(is_on: bool) -> Self {
        Self {
            mode: AtomicU8::new(if is_on { ON } else { OFF }),
        }
    }

    /// Returns true if the inlined read may be used for the record that is copied next.
    #[inline(always)]
    fn is_on(&self) -> bool {
        // Relaxed: the copy of the record that follows has an acquire fence after its loads and looks at the sequence
        // again after that. The fence pairs with the Release of `switch` that turns the guard on: the sequence is then
        // that of the publication that made this right, or of a later one, and an older copy is taken again. A later
        // one for which it is wrong is published only when this reading is over (`see_off`).
        self.mode.load(Ordering::Relaxed) == ON
    }

    fn switch(&self, steps: &mut impl Steps) -> bool {
        // Relaxed: what orders it before the installation is `see_off`, which waits for each CPU.
        self.mode.store(OFF, Ordering::Relaxed);
        steps.see_off();
        let is_installed = steps.install();
        if steps.may_inline() {
            // Release: pairs with the fence of a reader's copy after `is_on`; the publication stands before it. (The
            // fence inside of a publication would order it as well, but that is the business of the record.)
            self.mode.store(ON, Ordering::Release);
        }
        if is_installed {
            steps.tell();
        }
        is_installed
    }
}

/// The counters of a host.
pub trait Counters {
    /// Reads the counter that can be read inline. SHOULD be `#[inline(always)]` (spec TIM-45).
    ///
    /// It MUST return the same value as [`read`](Self::read) for each counter whose [`can_inline`](Counter::can_inline)
    /// is true. So at most one counter can be read inline.
    fn read_inlined(&self) -> Cycles;

    /// Reads any counter of the host.
    fn read(&self, counter: CounterId) -> Cycles;
}

/// The host's part between the steps of a switch.
pub trait SwitchHost {
    /// Waits until all readings of the clock, on every CPU, that began before the call have ended.
    ///
    /// A kernel interrupts each CPU and waits for an answer of each. An interrupt handler that interrupted a reading
    /// MUST NOT answer, because the reading continues after the handler. A host in user space needs a barrier on behalf
    /// of all threads, and a way to wait for the end of all readings, such as critical sections.
    fn wait_for_readers(&mut self);

    /// Calls `install` once while no other CPU reads the clock.
    fn stop_cpus(&mut self, install: &mut dyn FnMut());

    /// Notifies the CPUs that `counter` now drives the time. A CPU whose device or tick needs a better counter may then
    /// try again.
    fn tell_ticks(&mut self, counter: &Counter);
}

/// The result of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// The counter drove the time already; nothing changed.
    Current,
    /// The counter drives the time now, and readers call the host to read it.
    Called,
    /// The inlined counter drives the time now, and readers read it inline.
    Inlined,
}

/// A clock that reads one counter inline while that counter drives the time.
#[derive(Debug)]
pub struct GuardedClock<C> {
    timekeeper: Timekeeper,
    guard: Guard,
    counters: C,
}

impl<C: Counters> GuardedClock<C> {
    /// Makes a clock that starts at monotonic zero, with `counter` driving the time.
    ///
    /// # Errors
    ///
    /// [`BadCounter`] for a counter that cannot drive the time.
    pub fn new(counters: C, counter: Counter) -> Result<(Self, Keeper), BadCounter> {
        counter.check()?;
        let (timekeeper, keeper) = Timekeeper::new(counter, counters.read(counter.id));
        let clock = Self {
            timekeeper,
            guard: Guard::new(counter.can_inline),
            counters,
        };
        Ok((clock, keeper))
    }

    /// Returns the monotonic time.
    #[inline(always)]
    pub fn now(&self) -> Instant {
        if self.guard.is_on() {
            self.timekeeper.now(|| self.counters.read_inlined())
        } else {
            self.now_called()
        }
    }

    /// Returns the monotonic time and, if the clocks were set since `seen`, the new offsets: see
    /// [`Timekeeper::now_and_offsets`].
    #[inline]
    pub fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        self.timekeeper
            .now_and_offsets(seen, |counter| self.counters.read(counter))
    }

    /// Reads the clock in a context that may have interrupted a switch: see [`Timekeeper::now_on_top_of_writer`].
    #[inline]
    pub fn now_on_top_of_writer(&self) -> Instant {
        self.timekeeper
            .now_on_top_of_writer(|counter| self.counters.read(counter))
    }

    #[inline]
    fn now_called(&self) -> Instant {
        self.timekeeper
            .now_by(|counter| self.counters.read(counter))
    }

    /// Returns the published record, for its other queries and for the [`Keeper`].
    #[must_use]
    pub const fn timekeeper(&self) -> &Timekeeper {
        &self.timekeeper
    }

    /// Returns the counters of the host.
    #[must_use]
    pub const fn counters(&self) -> &C {
        &self.counters
    }

    /// Returns true if readers read the counter inline at this moment.
    #[must_use]
    pub fn is_inlined(&self) -> bool {
        self.guard.is_on()
    }

    /// Makes `counter` drive the time (spec TIM-43). Time does not jump.
    ///
    /// # Errors
    ///
    /// [`BadCounter`] for a counter that cannot drive the time; nothing is changed then.
    pub fn switch(
        &self,
        keeper: &mut Keeper,
        counter: Counter,
        host: &mut impl SwitchHost,
    ) -> Result<Switched, BadCounter> {
        counter.check()?;
        if keeper.counter() == counter {
            return Ok(Switched::Current);
        }
        let mut steps = Switch {
            clock: self,
            keeper,
            counter,
            host,
        };
        self.guard.switch(&mut steps);
        Ok(if self.guard.is_on() {
            Switched::Inlined
        } else {
            Switched::Called
        })
    }
}

struct Switch<'a, C, H> {
    clock: &'a GuardedClock<C>,
    keeper: &'a mut Keeper,
    counter: Counter,
    host: &'a mut H,
}

impl<C: Counters, H: SwitchHost> Steps for Switch<'_, C, H> {
    fn see_off(&mut self) {
        self.host.wait_for_readers();
    }

    fn install(&mut self) -> bool {
        let Self {
            clock,
            keeper,
            counter,
            host,
        } = self;
        let mut is_installed = false;
        host.stop_cpus(&mut || {
            let old = clock.counters.read(keeper.counter().id);
            let new = clock.counters.read(counter.id);
            let installed = keeper.switch_counter(&clock.timekeeper, old, *counter, new);
            is_installed = installed.is_ok();
        });
        is_installed
    }

    fn may_inline(&mut self) -> bool {
        // What is published, not what was asked for. A suspended clock publishes no counter: all readers get the time
        // at which it stopped, and the record that resumes it names the one of the keeper.
        let kept = self.keeper.counter();
        let published = self.clock.timekeeper.counter().unwrap_or(kept.id);
        published == kept.id && kept.can_inline
    }

    fn tell(&mut self) {
        self.host.tell_ticks(&self.counter);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
