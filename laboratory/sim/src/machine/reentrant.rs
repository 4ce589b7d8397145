//! Timers whose callbacks panic, or arm, move and cancel each other and themselves.

use std::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use tickless_core::base::Timers;
use tickless_core::coarse::{Tick, Timeout, WheelKind};
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::time::Span;

use crate::fault::FaultKind;
use crate::fault::inject::panic_on_purpose;
use crate::machine::host::Host;
use crate::machine::timers::{Coarse, Exact, Operations};
use crate::model::time::Picos;

/// The number of the call in which a callback panics.
const PANICS_AT: u32 = 3;
/// The number of callbacks that change other timers, each time that a fault hits.
const MEDDLES: u32 = 24;
/// The number of timers of each sort whose callbacks change each other.
const CIRCLE: usize = 3;

/// The timers of one fault on one CPU.
pub(crate) struct Callbacks {
    timers: Rc<Timers<Host>>,
    tick: Picos,
    amount: Picos,
    coarse: [Coarse; CIRCLE],
    exact: [Exact; CIRCLE],
    panicking: OnceCell<(Coarse, Exact)>,
    /// The number of callbacks to come that change timers.
    left: Cell<u32>,
    /// The number of steps so far. The number selects the next step.
    step: Cell<usize>,
}

/// Counts a call of a callback in `calls`, and panics at every [`PANICS_AT`]th call.
fn call_or_panic(calls: &mut u32) {
    *calls += 1;
    if (*calls).is_multiple_of(PANICS_AT) {
        panic_on_purpose();
    }
}

impl Callbacks {
    pub(super) fn new(timers: &Rc<Timers<Host>>, tick: Picos, amount: Picos) -> Rc<Self> {
        Rc::new_cyclic(|callbacks: &Weak<Self>| {
            let coarse = |index: usize| {
                let callbacks = Weak::clone(callbacks);
                Coarse::scripted(timers, WheelKind::Global, move |timeout| {
                    let all = callbacks.upgrade();
                    all.map_or(Restart::No, |all| all.coarse_fires(index, timeout))
                })
            };
            let exact = |index: usize| {
                let callbacks = Weak::clone(callbacks);
                Exact::scripted(timers, move |expired| {
                    let now = expired.now();
                    let all = callbacks.upgrade();
                    let Some(period) = all.and_then(|all| all.exact_fires(index)) else {
                        return Restart::No;
                    };
                    expired.forward(now, period);
                    Restart::Yes
                })
            };
            Self {
                timers: Rc::clone(timers),
                tick,
                amount,
                coarse: std::array::from_fn(coarse),
                exact: std::array::from_fn(exact),
                panicking: OnceCell::new(),
                left: Cell::new(0),
                step: Cell::new(0),
            }
        })
    }

    fn now(&self) -> Tick {
        self.timers.platform().tick_time().tick
    }

    fn expiry(&self, after: Picos) -> Tick {
        self.timers.platform().expiry(after, self.tick)
    }

    fn start(&self, exact: &Exact, after: Picos) {
        exact.may_leave_armed();
        let now = self.timers.platform().shows();
        let after = Span::from_nanos(after.as_nanos());
        exact.start(Start::at(now.saturating_add(after)));
    }

    fn cancel(&self, exact: &Exact) {
        exact.may_leave_armed();
        exact.cancel();
    }

    /// Starts a coarse timer and an exact timer that restart until they panic, unless they still run.
    pub(super) fn begin_to_panic(&self) {
        let (coarse, exact) = self.panicking.get_or_init(|| {
            let ticks = self.amount.0.div_ceil(self.tick.0).max(1) - 1;
            let period = self.amount;
            let period = Span::from_nanos(period.as_nanos().max(1_000));
            let mut calls = 0;
            let coarse = Coarse::new(&self.timers, WheelKind::Global, move |timeout| {
                call_or_panic(&mut calls);
                timeout.set_expiry_after(ticks);
                Restart::Yes
            });
            let mut calls = 0;
            let exact = Exact::new(&self.timers, move |expired| {
                call_or_panic(&mut calls);
                let now = expired.now();
                expired.forward(now, period);
                Restart::Yes
            });
            (coarse, exact)
        });
        if !coarse.is_queued() {
            let armed = coarse
                .pinned()
                .arm(&self.timers, self.now(), self.expiry(self.amount));
            assert_eq!(armed, Ok(()), "it was stopped");
        }
        if !exact.pinned().is_queued() {
            self.start(exact, self.amount);
        }
    }

    /// Starts the first timer of each circle.
    pub(super) fn begin_to_reenter(&self) {
        self.left.set(MEDDLES);
        self.modify(&self.coarse[0], self.amount);
        self.start(&self.exact[0], self.amount);
    }

    fn modify(&self, coarse: &Coarse, after: Picos) {
        let expiry = self.expiry(after);
        let modified = coarse.pinned().modify(&self.timers, self.now(), expiry);
        assert!(modified.has_armed(), "no timer of a machine is shut down");
    }

    /// Returns the number of the next step, if another callback may change timers.
    fn takes_turn(&self) -> Option<usize> {
        let left = self.left.get().checked_sub(1)?;
        self.left.set(left);
        let step = self.step.get();
        self.step.set(step + 1);
        if let Some(faults) = &self.timers.platform().faults {
            faults.borrow_mut().count(FaultKind::Meddle);
        }
        Some(step)
    }

    fn coarse_fires(&self, index: usize, timeout: &mut Timeout) -> Restart {
        let Some(step) = self.takes_turn() else {
            return Restart::No;
        };
        let (coarse, exact) = (&self.coarse, &self.exact);
        let (own, next, last) = (
            &coarse[index],
            &coarse[(index + 1) % CIRCLE],
            &coarse[(index + 2) % CIRCLE],
        );
        match step % 6 {
            0 => {
                self.modify(next, self.amount);
                self.modify(last, self.amount * 3);
            }
            1 => {
                let _was = next.pinned().delete_sync(&self.timers);
                self.modify(last, self.amount * 2);
            }
            2 => self.start(&exact[index], self.amount),
            3 => {
                // An arm meanwhile has the last word.
                self.modify(own, self.amount * 5);
                timeout.set_expiry_after(0);
                return Restart::Yes;
            }
            4 => {
                self.cancel(&exact[(index + 1) % CIRCLE]);
                self.modify(next, Picos::ZERO);
            }
            _ => {
                self.modify(own, self.amount);
                let _was = own.pinned().delete(&self.timers);
                self.modify(next, self.amount);
            }
        }
        Restart::No
    }

    /// Returns the period for the restart of the exact timer `index`, if it is restarted.
    fn exact_fires(&self, index: usize) -> Option<Span> {
        let step = self.takes_turn()?;
        let (coarse, exact) = (&self.coarse, &self.exact);
        let next = &exact[(index + 1) % CIRCLE];
        let last = &exact[(index + 2) % CIRCLE];
        match step % 5 {
            0 => {
                self.start(next, self.amount);
                self.start(last, self.amount * 2);
            }
            1 => {
                self.cancel(last);
                self.start(next, Picos::from_micros(1));
            }
            2 => self.modify(&coarse[index], self.amount),
            3 => {
                let _was = coarse[index].pinned().delete_sync(&self.timers);
                self.start(&exact[index], self.amount * 3);
            }
            _ => {
                self.start(next, self.amount);
                let period = self.amount.as_nanos().max(1_000);
                return Some(Span::from_nanos(period));
            }
        }
        None
    }
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Callbacks")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
