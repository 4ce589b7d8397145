//! Tests of the sizes and the auto traits of public types. The documentation names these numbers.

mod support;

use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart, Start};
use tickless::time::error::Elapsed;
use tickless::time::{Instant, Interval, MissedTickBehavior, Sleep, Timeout, Timer};
use tickless::wheel::WheelTimer;
use tickless::worker::Builder;
use tickless::{
    Driver, Parking, Stats, Turn, Unparker, Worker, Workers, boottime, coarse, realtime, tai,
};

/// The type of a timer with a closure that owns nothing.
#[cfg_attr(
    not(target_pointer_width = "64"),
    expect(dead_code, reason = "the sizes are those on 64 bits")
)]
fn plain() -> HrTimer<impl FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static> {
    HrTimer::new(|_| Restart::No)
}

#[test]
#[cfg(target_pointer_width = "64")]
fn timers_are_small() {
    let timer = plain();
    assert_eq!(size_of_val(&timer), 80);
    let word = 7_u64;
    let owning = HrTimer::new(move |_| {
        assert_eq!(word, 7);
        Restart::No
    });
    assert_eq!(size_of_val(&owning), 88);
    assert_eq!(size_of::<Sleep>(), 112);
    assert_eq!(size_of::<Timeout<std::future::Ready<()>>>(), 120);
    assert_eq!(size_of::<boottime::Sleep>(), 120);
    assert_eq!(size_of::<tai::Sleep>(), 120);
    assert_eq!(size_of::<realtime::Sleep>(), 144);
    assert_eq!(size_of::<coarse::Sleep>(), 80);
    assert_eq!(size_of::<coarse::Timeout<std::future::Ready<()>>>(), 88);
    let coarse = WheelTimer::new(|_| Restart::No);
    assert_eq!(size_of_val(&coarse), 48);
    let coarse = WheelTimer::new(move |timeout| {
        timeout.set_expiry_after(word);
        Restart::Yes
    });
    assert_eq!(size_of_val(&coarse), 56);
    assert_eq!(size_of::<Interval>(), 56);
    assert_eq!(size_of::<Timer>(), 40);
    assert_eq!((size_of::<Instant>(), size_of::<Elapsed>()), (8, 0));
}

/// The type names of futures, which compiler errors show, contain only types that the documentation shows.
#[test]
fn the_names_of_sleeps_have_no_parameters() {
    let names = [
        std::any::type_name::<Sleep>(),
        std::any::type_name::<coarse::Sleep>(),
    ];
    assert!(
        names.iter().all(|name| name.ends_with("::Sleep")),
        "{names:?}"
    );
}

/// The auto traits are those of tokio: a `Sleep` and a future that contains one may be sent and shared; a pinned one is
/// not `Unpin`, a boxed one is.
#[test]
fn the_auto_traits_are_those_of_tokio() {
    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_unpin<T: Unpin>() {}
    is_send_and_sync::<Sleep>();
    is_send_and_sync::<tokio::time::Sleep>();
    is_send_and_sync::<Timeout<u8>>();
    is_send_and_sync::<tokio::time::Timeout<u8>>();
    is_send_and_sync::<Interval>();
    is_send_and_sync::<tokio::time::Interval>();
    is_unpin::<Interval>();
    is_send_and_sync::<Timer>();
    is_unpin::<Timer>();
    is_unpin::<tokio::time::Interval>();
    assert_not_unpin!(Sleep);
    assert_not_unpin!(tokio::time::Sleep);
    is_send_and_sync::<coarse::Sleep>();
    is_send_and_sync::<coarse::Timeout<u8>>();
    assert_not_unpin!(coarse::Sleep);
    is_send_and_sync::<realtime::Sleep>();
    is_send_and_sync::<boottime::Sleep>();
    is_send_and_sync::<tai::Instant>();
    assert_not_unpin!(realtime::Sleep);
    assert_not_unpin!(boottime::Sleep);
    assert_not_unpin!(Timeout<u8>);
    assert_not_unpin!(tokio::time::Timeout<u8>);
    is_send_and_sync::<Unparker>();
    is_send_and_sync::<(Instant, MissedTickBehavior, Elapsed)>();
    is_send_and_sync::<(Start, Parking, Stats, Turn)>();
    is_send_and_sync::<(Builder, Workers<u8>)>();
    is_send_and_sync::<WheelTimer<fn(&mut tickless::wheel::Timeout) -> Restart>>();
}

/// Refuses to compile if the type may be sent to another thread.
macro_rules! assert_not_send {
    ($type:ty) => {
        const _: fn() = || {
            struct AlsoSend;
            trait Once<A> {
                fn only() {}
            }
            impl<T: ?Sized> Once<()> for T {}
            impl<T: ?Sized + Send> Once<AlsoSend> for T {}
            // Ambiguous if the type has both.
            let _ = <$type as Once<_>>::only;
        };
    };
}

assert_not_send!(Worker);
assert_not_send!(Driver);
