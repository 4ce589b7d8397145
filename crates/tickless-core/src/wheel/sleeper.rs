//! Coarse timers that wake tasks.

use core::pin::Pin;
use core::task::Waker;

use tickless_link::entry::Owner;

use super::arm::{Modify, kind_of};
use super::base::Kind;
use super::geometry::Tick;
use super::timer::WheelSleeper;
use crate::hrtimer::Timers;
use crate::hrtimer::base::Held;
use crate::platform::Platform;

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
                let held = Held::lock(self, me.base, Some(me));
                let kind = sleeper.as_ref().erase().tag();
                sleeper
                    .as_mut()
                    .bind(&held.state.wheels[kind as usize].shelf);
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
        let shelf = &mut held.state.wheels[kind as usize].shelf;
        let guarded = sleeper.pinned_entry().guarded(shelf)?;
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
    held: &mut Held<'_, P>,
    kind: Kind,
    sleeper: Pin<&WheelSleeper>,
    waker: Option<Waker>,
) -> Option<Waker> {
    let shelf = &mut held.state.wheels[kind as usize].shelf;
    let guarded = sleeper
        .pinned_entry()
        .guarded(shelf)
        .expect("the wheel that owns the timer is locked");
    core::mem::replace(guarded, waker)
}
