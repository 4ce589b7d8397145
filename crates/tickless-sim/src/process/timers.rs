//! Timers that belong to a process, and are dropped with it.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Waker;

use tickless_conformance::owned::{Coarse, Exact, Keeper};
use tickless_core::base::{TaskTimer, Timers};
use tickless_core::coarse::{Tick, WheelKind};
use tickless_core::hrtimer::{Restart, Setup, Sleeper, Start};
use tickless_core::time::Instant;

use super::host::ProcessHost;
use crate::model::cost_model::CacheLine;
use crate::model::current_cpu;
use crate::model::time::Picos;

impl Keeper for ProcessHost {
    /// Dequeues a dropped timer on the first thread, as the owner of the timer would, without a charge.
    fn end_timer(&self, end: impl FnOnce()) {
        current_cpu::enter(0, Picos::ZERO);
        end();
        current_cpu::leave();
    }
}

/// Charges a change of a timer: its `line` is transferred from the thread that changed the timer last.
fn touched<'a>(timers: &'a Timers<ProcessHost>, line: &CacheLine) -> &'a Timers<ProcessHost> {
    line.write(&timers.platform().model, 1);
    timers
}

/// An exact timer whose callback does nothing.
#[derive(Debug)]
pub struct ExactTimer {
    timer: Exact<ProcessHost>,
    line: CacheLine,
}

impl ExactTimer {
    pub(super) fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        Self {
            // As in the host, whose threads settle what is armed before they sleep.
            timer: Exact::with_setup(timers, Setup::new().leaving_early(), |_| Restart::No),
            line: CacheLine::default(),
        }
    }

    fn touched(&self) -> &Timers<ProcessHost> {
        touched(self.timer.timers(), &self.line)
    }

    pub(super) fn start(&self, at: Instant) {
        let _ = self.timer.pinned().start(self.touched(), Start::at(at));
    }

    pub(super) fn cancel(&self) -> bool {
        self.timer.pinned().cancel(self.touched())
    }

    /// Returns true if the timer is queued.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.pinned().is_active()
    }
}

/// An exact timer like that of a future, but without a task to wake.
pub struct SleepTimer {
    timers: Rc<Timers<ProcessHost>>,
    line: CacheLine,
    sleeper: Pin<Box<Sleeper>>,
}

impl SleepTimer {
    pub(super) fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        Self {
            timers: Rc::clone(timers),
            line: CacheLine::default(),
            sleeper: Box::pin(Sleeper::new()),
        }
    }

    pub(super) fn start(&mut self, at: Instant) {
        let sleeper = self.sleeper.as_mut();
        let waker = Waker::noop().clone();
        let timers = touched(&self.timers, &self.line);
        let _old = sleeper.start(timers, Start::at(at), waker);
    }

    pub(super) fn restart(&mut self, at: Instant) {
        let sleeper = self.sleeper.as_ref();
        if !sleeper.restart(touched(&self.timers, &self.line), Start::at(at)) {
            self.start(at);
        }
    }

    pub(super) fn cancel(&self) {
        let sleeper = self.sleeper.as_ref();
        sleeper.cancel(touched(&self.timers, &self.line));
    }
}

impl Drop for SleepTimer {
    fn drop(&mut self) {
        self.timers.platform().end_timer(|| self.cancel());
    }
}

impl fmt::Debug for SleepTimer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sleeper.fmt(formatter)
    }
}

/// A coarse timer whose callback does nothing.
#[derive(Debug)]
pub struct CoarseTimer {
    timer: Coarse<ProcessHost>,
    line: CacheLine,
}

impl CoarseTimer {
    pub(super) fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        Self {
            timer: Coarse::new(timers, WheelKind::Local, |_| Restart::No),
            line: CacheLine::default(),
        }
    }

    fn touched(&self) -> &Timers<ProcessHost> {
        touched(self.timer.timers(), &self.line)
    }

    pub(super) fn arm(&self, now: Tick, expiry: Tick) {
        let armed = self.timer.pinned().arm(self.touched(), now, expiry);
        assert_eq!(armed, Ok(()), "only an inactive timer is armed");
    }

    pub(super) fn modify(&self, now: Tick, expiry: Tick) {
        let modified = self.timer.pinned().modify(self.touched(), now, expiry);
        assert!(modified.has_armed(), "no timer of a process is shut down");
    }

    pub(super) fn delete(&self) -> bool {
        self.timer.pinned().delete(self.touched())
    }
}
