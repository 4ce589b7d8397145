//! Timers that belong to a process, and end with it.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Waker;

use tickless_core::base::TaskTimer;
use tickless_core::base::Timers;
use tickless_core::coarse::{Kind, Rearm, Tick, Timeout, WheelTimer};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Sleeper, Start};
use tickless_core::time::{Instant, Monotonic};

use super::host::ProcessHost;
use crate::model::cost_model::CacheLine;
use crate::model::current_cpu;
use crate::model::time::Picos;

type ExactCall = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;
type CoarseCall = fn(&Timeout) -> Rearm;

/// What a timer is in: the system that it belongs to, and who wrote its line last.
struct Home {
    timers: Rc<Timers<ProcessHost>>,
    line: CacheLine,
}

impl Home {
    fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        Self {
            timers: Rc::clone(timers),
            line: CacheLine::default(),
        }
    }

    /// Its timer is changed: the line comes from whoever changed it last.
    fn touched(&self) -> &Timers<ProcessHost> {
        self.line.write(&self.timers.platform().model, 1);
        &self.timers
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Home")
    }
}

/// Timers end on the first thread, which operates on them as their owner does; nobody is charged for it.
fn as_first_thread<R>(body: impl FnOnce() -> R) -> R {
    current_cpu::enter(0, Picos::ZERO);
    let result = body();
    current_cpu::leave();
    result
}

/// An exact timer whose callback does nothing.
#[derive(Debug)]
pub struct ExactTimer {
    home: Home,
    timer: Pin<Box<HrTimer<ExactCall>>>,
}

impl ExactTimer {
    pub(super) fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        let call: ExactCall = |_| Restart::No;
        Self {
            home: Home::new(timers),
            timer: Box::pin(HrTimer::new(call)),
        }
    }

    pub(super) fn start(&self, at: Instant) {
        self.timer
            .as_ref()
            .start(self.home.touched(), Start::at(at));
    }

    pub(super) fn cancel(&self) -> bool {
        self.timer.as_ref().cancel(self.home.touched())
    }

    /// Whether it waits to fire.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.as_ref().is_active()
    }
}

impl Drop for ExactTimer {
    fn drop(&mut self) {
        as_first_thread(|| self.timer.as_ref().cancel(&self.home.timers));
    }
}

/// Has what is done to a sleeper cost what it costs on the shelf.
fn as_sleeper<R>(timers: &Timers<ProcessHost>, body: impl FnOnce(&Timers<ProcessHost>) -> R) -> R {
    timers.platform().is_sleeper.set(true);
    let result = body(timers);
    timers.platform().is_sleeper.set(false);
    result
}

/// An exact timer that wakes nobody in particular.
#[derive(Debug)]
pub struct SleepTimer {
    home: Home,
    sleeper: Pin<Box<Sleeper>>,
}

impl SleepTimer {
    pub(super) fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        Self {
            home: Home::new(timers),
            sleeper: Box::pin(Sleeper::new()),
        }
    }

    pub(super) fn start(&mut self, at: Instant) {
        let sleeper = self.sleeper.as_mut();
        let waker = Waker::noop().clone();
        let start = |timers: &Timers<ProcessHost>| {
            let _old = sleeper.start(timers, Start::at(at), waker);
        };
        as_sleeper(self.home.touched(), start);
    }

    pub(super) fn restart(&mut self, at: Instant) {
        let sleeper = self.sleeper.as_ref();
        let start = |timers: &Timers<ProcessHost>| sleeper.restart(timers, Start::at(at));
        if !as_sleeper(self.home.touched(), start) {
            self.start(at);
        }
    }

    pub(super) fn cancel(&self) {
        let sleeper = self.sleeper.as_ref();
        as_sleeper(self.home.touched(), |timers| sleeper.cancel(timers));
    }
}

impl Drop for SleepTimer {
    fn drop(&mut self) {
        as_first_thread(|| self.cancel());
    }
}

/// A coarse timer whose callback does nothing.
#[derive(Debug)]
pub struct CoarseTimer {
    home: Home,
    timer: Pin<Box<WheelTimer<CoarseCall>>>,
}

impl CoarseTimer {
    pub(super) fn new(timers: &Rc<Timers<ProcessHost>>) -> Self {
        let call: CoarseCall = |_| Rearm::No;
        Self {
            home: Home::new(timers),
            timer: Box::pin(WheelTimer::new(Kind::Local, call)),
        }
    }

    pub(super) fn arm(&self, now: Tick, expiry: Tick) {
        let armed = self.timer.as_ref().arm(self.home.touched(), now, expiry);
        assert_eq!(armed, Ok(()), "only an inactive timer is armed");
    }

    pub(super) fn modify(&self, now: Tick, expiry: Tick) {
        let modified = self.timer.as_ref().modify(self.home.touched(), now, expiry);
        assert!(modified.is_ok(), "no timer of a process is shut down");
    }

    pub(super) fn delete(&self) -> bool {
        self.timer.as_ref().delete(self.home.touched())
    }
}

impl Drop for CoarseTimer {
    fn drop(&mut self) {
        as_first_thread(|| self.timer.as_ref().shutdown_sync(&self.home.timers));
    }
}
