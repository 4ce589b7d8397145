//! Operations of the core alone, with the lock of user space. The figures do not include the layers above the core.

use std::hint::black_box;
use std::pin::Pin;

use tickless_core::base::Timers;
use tickless_core::coarse::{Tick, WheelKind};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Monotonic, Span};

use super::operation::counted;
use crate::host::{self, Coarse, Host};

/// The number of pending timers, besides the timers of the operation.
const PENDING: u64 = 1_000;
/// The number of timers on which an operation is executed in each round.
pub(super) const OWN: u64 = 64;
const ROUNDS: u64 = 32;

/// The names of the operations on exact timers.
pub(super) const EXACT: [&str; 5] = [
    "core, exact: start",
    "core, exact: restart in place",
    "core, exact: restart with a move",
    "core, exact: cancel",
    "core, exact: expire",
];
pub(super) const COARSE: [&str; 5] = [
    "core, coarse: start",
    "core, coarse: restart in its bucket",
    "core, coarse: restart with a move",
    "core, coarse: cancel",
    "core, coarse: expire",
];

pub(super) fn execute(operation: &str) {
    let step = |name: &str, body: &mut dyn FnMut()| {
        if name == operation {
            counted(body);
        } else {
            body();
        }
    };
    if EXACT.contains(&operation) {
        exact(&step);
    } else {
        coarse(&step);
    }
}

/// A function that executes a part of a round. The part is counted if its name is the name of the operation.
type Step<'a> = &'a dyn Fn(&str, &mut dyn FnMut());

/// Returns one of a million places, a different one for each number.
const fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44
}

type Exact = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;

fn exact(step: Step<'_>) {
    let timers = host::timers();
    let new = |_| -> Pin<Box<Exact>> { Box::pin(HrTimer::new(|_| Restart::No)) };
    let (waiting, own): (Vec<_>, Vec<_>) =
        ((0..PENDING).map(new).collect(), (0..OWN).map(new).collect());
    let start = |timer: &Pin<Box<Exact>>, at: Instant| {
        _ = timer.as_ref().start(&timers, Start::at(at));
    };
    let cancel = |timer: &Pin<Box<Exact>>| _ = black_box(timer.as_ref().try_cancel(&timers));
    // Hours ahead, so that none of them fires.
    let among_others = |number| after(Instant::from_nanos(1 << 44), scattered(number));
    for (timer, number) in waiting.iter().zip(0..) {
        start(timer, among_others(number));
    }
    for round in 1..=ROUNDS {
        let numbered = || own.iter().zip(round * PENDING..);
        step(EXACT[0], &mut || {
            numbered().for_each(|(timer, number)| start(timer, among_others(number)));
        });
        step(EXACT[1], &mut || {
            let later = |at: Instant| at.saturating_add(Span::from_nanos(1));
            numbered().for_each(|(timer, number)| start(timer, later(among_others(number))));
        });
        step(EXACT[2], &mut || {
            numbered().for_each(|(timer, number)| start(timer, among_others(number + OWN)));
        });
        step(EXACT[3], &mut || own.iter().for_each(cancel));
        let now = &timers.platform().now;
        for (timer, number) in numbered() {
            start(timer, after(now.get(), scattered(number)));
        }
        now.set(after(now.get(), 1 << 20));
        step(EXACT[4], &mut || {
            let fired = timers.interrupt(CpuId(0)).fired;
            assert_eq!(u64::from(fired), OWN);
        });
    }
    waiting.iter().for_each(cancel);
}

fn after(at: Instant, micros: u64) -> Instant {
    at.saturating_add(Span::from_nanos(micros * 1_000))
}

fn coarse(step: Step<'_>) {
    let timers: Timers<Host> = host::timers();
    let new = |_| host::coarse(WheelKind::Local);
    let (waiting, own): (Vec<_>, Vec<_>) =
        ((0..PENDING).map(new).collect(), (0..OWN).map(new).collect());
    let mut now = Tick(1);
    let modify = |timer: &Pin<Box<Coarse>>, now: Tick, after: u64| {
        _ = black_box(timer.as_ref().modify(&timers, now, Tick(now.0 + after)));
    };
    let delete = |timer: &Pin<Box<Coarse>>| _ = black_box(timer.as_ref().delete(&timers));
    // So far ahead that none of them fires, on the level whose buckets are 32,768 ticks.
    let far = |number| (1 << 20) + (scattered(number) & !0x7FFF) + 1_000;
    for (timer, number) in waiting.iter().zip(0..) {
        modify(timer, now, far(number));
    }
    for round in 1..=ROUNDS {
        let numbered = || own.iter().zip(round * PENDING..);
        step(COARSE[0], &mut || {
            numbered().for_each(|(timer, number)| modify(timer, now, far(number)));
        });
        step(COARSE[1], &mut || {
            numbered().for_each(|(timer, number)| modify(timer, now, far(number) + 1));
        });
        step(COARSE[2], &mut || {
            numbered().for_each(|(timer, number)| modify(timer, now, far(number + OWN)));
        });
        step(COARSE[3], &mut || own.iter().for_each(delete));
        for (timer, number) in numbered() {
            modify(timer, now, 100 + scattered(number) % 4_000);
        }
        now.0 += 10_000;
        step(COARSE[4], &mut || {
            let fired = timers
                .run_wheel(CpuId(0), WheelKind::Local, now, u32::MAX)
                .fired;
            assert_eq!(u64::from(fired), OWN);
        });
    }
    waiting.iter().for_each(delete);
}
