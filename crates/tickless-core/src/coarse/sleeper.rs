//! Coarse timers that wake tasks.

use core::fmt;
use core::pin::Pin;
use core::task::Waker;

use tickless_link::const_unless_loom;
use tickless_link::entry::{Entry, EntryRef, Expiry, Member, Owner, Queue};

use crate::base::guard::BaseGuard;
use crate::base::owner::kind_of;
use crate::base::sleeper::{WAKES, Wake};
use crate::base::timers::Timers;
use crate::coarse::arm::Modify;
use crate::platform::Platform;
use crate::slots::geometry::Tick;
use crate::wheel::family::{Coarse, ExpiryTick, Kind, Rearm, Timeout};

impl Member<Coarse> for Wake {
    /// Whom to wake; `None` once the timer fired.
    type Guarded = Option<Waker>;

    fn name() -> &'static str {
        WAKES
    }

    #[inline]
    fn expire(waker: &mut Option<Waker>) -> Expiry<Option<Waker>> {
        // As for the exact ones: idle before anybody is woken, so the woken task may free the timer at once.
        Expiry::Done(waker.take())
    }

    fn call(&mut self, _timeout: &mut Timeout) -> Rearm {
        Rearm::No
    }
}

/// A coarse timer that wakes a task: what futures are made of.
///
/// It never runs a callback, so deleting it never waits.
///
/// Cost: 64 bytes on 64-bit targets.
pub struct WheelSleeper {
    entry: Entry<Coarse, Wake>,
}

tickless_link::project_entry!([] WheelSleeper [] entry: Entry<Coarse, Wake>);

impl WheelSleeper {
    const_unless_loom! {
        /// Makes an idle timer for the wheel of `kind`.
        #[must_use]
        pub const fn new(kind: Kind) -> Self {
            Self { entry: Entry::new((), kind, (), ExpiryTick::new(), None, Wake) }
        }
    }

    /// Whether the timer is queued: it was armed, and has neither fired nor been deleted. Lock-free.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Coarse> {
        self.entry().erase()
    }

    /// What an idle sleeper keeps of a task, for an arming to come; `None` while it is queued.
    ///
    /// An arming takes the waker that it is given in place of this one.
    #[inline]
    pub fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.entry_mut().guarded_mut()
    }

    /// Gives a sleeper that was never armed to the wheel that `buckets` is of.
    #[inline]
    pub(crate) fn bind(self: Pin<&mut Self>, buckets: &impl Queue<Coarse>) -> bool {
        self.entry_mut().bind(buckets)
    }

    #[inline]
    pub(crate) fn pinned_entry(self: Pin<&Self>) -> Pin<&Entry<Coarse, Wake>> {
        self.entry()
    }
}

impl fmt::Debug for WheelSleeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("WheelSleeper")
            .field(&self.entry)
            .finish()
    }
}

impl<P: Platform> Timers<P> {
    /// Arms `sleeper` and has `waker` woken when it fires. If it is queued already it is modified.
    ///
    /// Returns the waker that was there before, to be dropped by the caller (dropping it may run foreign code).
    ///
    /// # Cost
    ///
    /// As [`arm`](Self::arm).
    pub fn arm_sleeper(
        &self,
        mut sleeper: Pin<&mut WheelSleeper>,
        now: Tick,
        expiry: Tick,
        waker: Waker,
    ) -> Option<Waker> {
        let me = self.executing_cpu();
        let mut held = match me {
            // The usual case, the first time on the thread that polls: the lock is taken at once.
            Some(me) if sleeper.as_ref().erase().owner() == Owner::Unbound => {
                let held = BaseGuard::lock(self, me.base, Some(me));
                let kind = sleeper.as_ref().erase().tag();
                sleeper
                    .as_mut()
                    .bind(&held.state.wheels[kind as usize].buckets);
                held
            }
            _ => self.lock_base_of(sleeper.as_ref().erase(), me),
        };
        let sleeper = sleeper.as_ref();
        let entry = sleeper.erase();
        let kind = kind_of(&held, entry);
        let old = exchange(&mut held, kind, sleeper, Some(waker));
        self.modify_held(&mut held, entry, kind, (now, expiry), me);
        old
    }

    /// Gives a queued sleeper another expiry and keeps its waker; `false` if it is not queued any more.
    ///
    /// # Cost
    ///
    /// As [`modify`](Self::modify).
    #[inline]
    pub fn modify_sleeper(&self, sleeper: Pin<&WheelSleeper>, now: Tick, expiry: Tick) -> bool {
        self.modify_entry(sleeper.erase(), Modify::IfActive, now, expiry) == Ok(true)
    }

    /// Whether `sleeper` is queued and would wake the task of `waker`; `None` if it is not queued any more.
    pub fn wheel_sleeper_will_wake(
        &self,
        sleeper: Pin<&WheelSleeper>,
        waker: &Waker,
    ) -> Option<bool> {
        if !sleeper.is_queued() {
            return None;
        }
        let entry = sleeper.erase();
        let mut held = self.lock_base_of(entry, self.executing_cpu());
        if !sleeper.is_queued() {
            return None;
        }
        let kind = kind_of(&held, entry);
        let buckets = &mut held.state.wheels[kind as usize].buckets;
        let guarded = sleeper.pinned_entry().guarded(buckets)?;
        Some(guarded.as_ref().is_some_and(|old| old.will_wake(waker)))
    }

    /// Has `waker` woken instead of the one before, which is returned for the caller to drop.
    ///
    /// # Errors
    ///
    /// The waker, when the sleeper fired or was deleted.
    pub fn set_wheel_sleeper_waker(
        &self,
        sleeper: Pin<&WheelSleeper>,
        waker: Waker,
    ) -> Result<Option<Waker>, Waker> {
        if !sleeper.is_queued() {
            return Err(waker);
        }
        let mut held = self.lock_base_of(sleeper.erase(), self.executing_cpu());
        if !sleeper.is_queued() {
            return Err(waker);
        }
        let kind = kind_of(&held, sleeper.erase());
        Ok(exchange(&mut held, kind, sleeper, Some(waker)))
    }

    /// Takes `sleeper` off its wheel and returns its waker, for the caller to drop. `None` if it is not queued.
    ///
    /// Never waits: a sleeper has no callback. When this returns the sleeper may be freed.
    pub fn delete_sleeper(&self, sleeper: Pin<&WheelSleeper>) -> Option<Waker> {
        let entry = sleeper.erase();
        if entry.state().is_idle() {
            return None;
        }
        let mut held = self.lock_base_of(entry, self.executing_cpu());
        let kind = kind_of(&held, entry);
        let old = exchange(&mut held, kind, sleeper, None);
        self.unfile(&mut held, entry, kind);
        old
    }
}

/// Gives a sleeper of the wheel of `kind` of the locked base another waker.
#[inline]
fn exchange<P: Platform>(
    held: &mut BaseGuard<'_, P>,
    kind: Kind,
    sleeper: Pin<&WheelSleeper>,
    waker: Option<Waker>,
) -> Option<Waker> {
    let buckets = &mut held.state.wheels[kind as usize].buckets;
    let guarded = sleeper
        .pinned_entry()
        .guarded(buckets)
        .expect("the wheel that owns the timer is locked");
    core::mem::replace(guarded, waker)
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = assert!(size_of::<WheelSleeper>() == 64);
