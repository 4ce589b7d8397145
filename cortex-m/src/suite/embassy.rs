//! Tests of embassy's time on the driver: sleeps, tickers and timeouts of several tasks.

use core::cell::{Cell, RefCell};
use core::pin::pin;

use alloc::vec::Vec;
use embassy_time::{Duration, Instant, Ticker, Timer, with_timeout};

use super::fixture::{Verdict, ensure};
use crate::block_on::block_on;
use crate::exit::say;

/// The largest delay from a deadline until its task has read the clock. It includes the interrupt, the callback, the
/// waker and the poll.
const LATENESS_MAX: Duration = Duration::from_micros(20);

/// Tests that the sleeps of several tasks end in the order of their lengths, and no sleep ends early.
pub(super) fn sleeps() -> Verdict {
    let begin = Instant::now();
    let ended = RefCell::new(Vec::new());
    let sleep = async |micros: u64| {
        Timer::after_micros(micros).await;
        ended.borrow_mut().push((micros, begin.elapsed()));
    };
    let (a, b, c, d) = (sleep(3_000), sleep(1), sleep(250), sleep(40));
    block_on(&mut [pin!(a), pin!(b), pin!(c), pin!(d)]);
    let ended = ended.into_inner();
    let order: Vec<u64> = ended.iter().map(|&(micros, _)| micros).collect();
    ensure!(
        order == [1, 40, 250, 3_000],
        "they ended in the order {order:?}"
    );
    for (micros, elapsed) in ended {
        ensure!(
            elapsed >= Duration::from_micros(micros),
            "{micros} µs took {elapsed}"
        );
    }
    Ok(())
}

/// Tests that the ticks of a ticker stay on their grid.
pub(super) fn ticker() -> Verdict {
    const TIMES: u64 = 1_000;
    const EVERY: Duration = Duration::from_micros(500);
    let latest = Cell::new(Duration::from_ticks(0));
    let early = Cell::new(0);
    let begin = Instant::now();
    let ticks = async {
        let mut ticker = Ticker::every(EVERY);
        for number in 1..=TIMES {
            ticker.next().await;
            let due = begin + EVERY * u32::try_from(number).unwrap_or(u32::MAX);
            match Instant::now().checked_duration_since(due) {
                Some(late) => latest.set(latest.get().max(late)),
                None => early.set(early.get() + 1),
            }
        }
    };
    block_on(&mut [pin!(ticks)]);
    say!(
        "  {TIMES} ticks, {} ns late at most",
        latest.get().as_ticks()
    );
    ensure!(early.get() == 0, "{} ticks were early", early.get());
    ensure!(
        latest.get() <= LATENESS_MAX,
        "a tick was {} late",
        latest.get()
    );
    Ok(())
}

/// Tests that a timeout ends a slow future and returns the result of a fast future.
pub(super) fn timeouts() -> Verdict {
    let outcome = Cell::new((None, None));
    let tries = async {
        let slow = with_timeout(Duration::from_micros(100), Timer::after_secs(60)).await;
        let fast = with_timeout(Duration::from_secs(60), Timer::after_micros(100)).await;
        outcome.set((Some(slow.is_err()), Some(fast.is_ok())));
    };
    let begin = Instant::now();
    block_on(&mut [pin!(tries)]);
    ensure!(
        outcome.get() == (Some(true), Some(true)),
        "they ended as {:?}",
        outcome.get()
    );
    let elapsed = begin.elapsed();
    ensure!(elapsed < Duration::from_secs(1), "both took {elapsed}");
    Ok(())
}

/// Tests that more tasks than the driver has waiters all sleep for their full time.
pub(super) fn crowd() -> Verdict {
    const EACH: Duration = Duration::from_micros(300);
    let early = Cell::new(0);
    let sleep = async || {
        let begin = Instant::now();
        Timer::after(EACH).await;
        early.set(early.get() + u32::from(begin.elapsed() < EACH));
    };
    let mut all: Vec<_> = (0..20).map(|_| alloc::boxed::Box::pin(sleep())).collect();
    let mut tasks: Vec<core::pin::Pin<&mut dyn Future<Output = ()>>> = Vec::new();
    for task in &mut all {
        tasks.push(task.as_mut());
    }
    block_on(&mut tasks);
    ensure!(early.get() == 0, "{} sleeps were early", early.get());
    Ok(())
}
