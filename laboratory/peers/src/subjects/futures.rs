//! Subjects made of sleeping futures, generic over the library.

use std::future::Future;
use std::hint::black_box;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::slots::Slots;
use crate::subject::Subject;

/// A library's sleeping future, with its clock and environment.
pub(crate) trait SleepKind: Sized {
    type Sleep: Future + Send + 'static;
    type Time: Copy;
    type Environment;

    /// True if a sleep that was reset waits only when it is polled again.
    const IS_POLLED_AGAIN: bool = false;

    fn within<R>(body: impl FnOnce(&Self::Environment) -> R) -> R;
    /// See [`Subject::serve`].
    #[inline]
    fn serve(place: &Self::Environment) {
        let _has_no_duties = place;
    }
    fn now() -> Self::Time;
    fn later(time: Self::Time, nanos: u64) -> Self::Time;
    fn make(deadline: Self::Time) -> Self::Sleep;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Self::Time);
    /// Returns true if the time of a sleep is over; called only for sleeps that were polled.
    fn is_over(sleep: &Self::Sleep) -> bool;

    /// Waits until a timer may have fired.
    fn wait(place: &Self::Environment) {
        let _unused = place;
        std::thread::sleep(A_LITTLE);
    }
}

/// The time that a thread sleeps between two checks whether other threads fired everything: long enough to cost
/// nothing.
const A_LITTLE: Duration = Duration::from_millis(1);

/// A waker that counts how often it was woken.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed: a count that is looked at until it is large enough; nothing else is read by it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A subject whose slots hold futures; each future is polled once when it is armed.
#[derive(Debug)]
pub(crate) struct Futures<K: SleepKind> {
    slots: Slots<Option<K::Sleep>>,
    waker: Waker,
    woken: Option<Arc<Count>>,
    kind: PhantomData<fn(K)>,
}

impl<K: SleepKind> Subject for Futures<K> {
    type Time = K::Time;
    type Environment = K::Environment;

    const IS_FUTURE: bool = true;

    fn within<R>(body: impl FnOnce(&Self::Environment) -> R) -> R {
        K::within(body)
    }

    #[inline]
    fn serve(place: &Self::Environment) {
        K::serve(place);
    }

    fn new(_place: &Self::Environment, slots: usize, counts: bool) -> Self {
        let woken = counts.then(Arc::<Count>::default);
        Self {
            slots: Slots::new(slots, || None),
            waker: woken.as_ref().map_or_else(
                || Waker::noop().clone(),
                |woken| Waker::from(Arc::clone(woken)),
            ),
            woken,
            kind: PhantomData,
        }
    }

    #[inline]
    fn now(&mut self) -> Self::Time {
        K::now()
    }

    #[inline]
    fn later(time: Self::Time, nanos: u64) -> Self::Time {
        K::later(time, nanos)
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: Self::Time) -> bool {
        let mut slot = self.slots.at_mut(slot);
        slot.set(Some(K::make(deadline)));
        let mut context = Context::from_waker(&self.waker);
        slot.as_pin_mut()
            .is_some_and(|sleep| sleep.poll(&mut context).is_pending())
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        let mut slot = self.slots.at_mut(slot);
        let was_armed = slot.is_some();
        slot.set(None);
        was_armed
    }

    #[inline]
    fn push_out(&mut self, slot: usize, deadline: Self::Time) {
        if let Some(mut sleep) = self.slots.at_mut(slot).as_pin_mut() {
            K::reset(sleep.as_mut(), deadline);
            if K::IS_POLLED_AGAIN {
                let _pending = sleep.poll(&mut Context::from_waker(&self.waker));
            }
        }
    }

    #[inline]
    fn arm_and_cancel(&mut self, deadline: Self::Time) -> bool {
        let sleep = pin!(K::make(deadline));
        let mut context = Context::from_waker(&self.waker);
        sleep.poll(&mut context).is_pending()
    }

    #[inline]
    fn drop_unpolled(&mut self, deadline: Self::Time) {
        let sleep = K::make(deadline);
        black_box(&sleep);
    }

    fn is_armed(&mut self, slot: usize) -> bool {
        let sleep = self.slots.at(slot).get_ref();
        sleep.as_ref().is_some_and(|sleep| !K::is_over(sleep))
    }

    fn fire(&mut self, place: &Self::Environment) -> u64 {
        K::wait(place);
        // Relaxed: as in `wake_by_ref`.
        { self.woken.as_ref() }.map_or(0, |woken| woken.0.load(Ordering::Relaxed))
    }
}
