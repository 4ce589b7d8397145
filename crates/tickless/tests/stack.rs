//! A test of the stack that a thread with timers needs: some programs give their threads 32 KiB.

mod support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::{block_on, in_own_process, ms, poll_idly, until, us};
use tickless::hrtimer::{Boottime, Expired, HrTimer, Restart, Setup, Span, Start};
use tickless::wheel::WheelTimer;
use tickless::{Driver, Worker, coarse, time};

/// The size of the stack that the documentation promises to be enough.
const STACK: usize = 32 << 10;

/// Runs `body` on a thread with a small stack. An overflow of the stack ends the process.
fn on_small_stack(body: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK).spawn(body);
    let thread = thread.expect("there are threads enough");
    thread.join().expect("it does not panic");
}

#[test]
fn the_first_timer_of_a_process_needs_little_stack() {
    in_own_process("the_first_timer_of_a_process_needs_little_stack", || {
        on_small_stack(|| block_on(time::sleep(us(100))));
    });
}

#[test]
fn the_first_coarse_timer_of_a_process_needs_little_stack() {
    in_own_process(
        "the_first_coarse_timer_of_a_process_needs_little_stack",
        || on_small_stack(|| block_on(coarse::sleep(ms(1)))),
    );
}

#[test]
fn the_first_worker_of_a_process_needs_little_stack() {
    in_own_process("the_first_worker_of_a_process_needs_little_stack", || {
        on_small_stack(|| {
            let worker = Worker::new().expect("the thread is free");
            worker.block_on(time::sleep(us(100)));
            worker.block_on(coarse::sleep(ms(1)));
        });
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no event loops on the portable host")]
fn the_first_event_loop_of_a_process_needs_little_stack() {
    in_own_process(
        "the_first_event_loop_of_a_process_needs_little_stack",
        || {
            on_small_stack(|| {
                let driver = Driver::new().expect("the thread is free");
                let mut sleep = pin!(time::sleep(us(100)));
                while poll_idly(sleep.as_mut()).is_pending() {
                    support::wait(&driver);
                    let _any = driver.turn();
                }
            });
        },
    );
}

#[test]
fn a_thread_with_a_small_stack_uses_timers_with_callbacks() {
    let test = "a_thread_with_a_small_stack_uses_timers_with_callbacks";
    in_own_process(test, || on_small_stack(use_callbacks));
}

fn use_callbacks() {
    let (fired, also_fired) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let (fire, also_fire) = (Arc::clone(&fired), Arc::<AtomicBool>::clone(&also_fired));
    let exact = pin!(HrTimer::with_setup(
        Setup::new(),
        move |_: &mut Expired<'_, '_, Boottime>| {
            fire.store(true, Ordering::Release);
            Restart::No
        }
    ));
    let coarse = pin!(WheelTimer::new(move |_| {
        also_fire.store(true, Ordering::Release);
        Restart::No
    }));
    let _ = exact.as_ref().start(Start::after(Span::from_micros(50)));
    assert!(coarse.as_ref().start_if_idle(ms(1)).has_armed());
    until(|| fired.load(Ordering::Acquire) && also_fired.load(Ordering::Acquire));
    let far = pin!(HrTimer::new(|_| Restart::No));
    let _ = far.as_ref().start(Start::after(Span::from_secs(3600)));
    assert!(far.as_ref().cancel());
}
