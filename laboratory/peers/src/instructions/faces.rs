//! Operations of the public interface with 100 pending timers, and the corresponding operations of tokio. The figures
//! include all costs for users, such as the clock and the access to the thread's own base.

use std::future::{Future, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use tickless::Worker;
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart as ExactRestart};
use tickless::time::{Instant, Precision};
use tickless::wheel::{Restart, Timeout, WheelTimer};

use super::operation::{Aim, Operation, counted};
use crate::threads::{runtime, worker};

const PENDING: u64 = 100;
const ROUNDS: u64 = 201;
/// The number of rounds for operations that take long.
const FEW_ROUNDS: u64 = 9;
/// The number of sleeps that are due at once.
const DUE: u64 = 1_000;

const SLEEP: Duration = Duration::from_secs(500);
const STEP: Duration = Duration::from_micros(10);
/// The slack of this library's timers that corresponds to the resolution of tokio's timers.
const SLACK: Precision = Precision::Millisecond;

/// A row of the table: the name of the operation, its aim, and the function that executes its rounds.
type Row = (&'static str, Aim, fn());

const MADE_AND_DROPPED: &str = "`sleep` of 500 s: made, polled once, dropped; foreign thread";
const ON_A_WORKER: &str = "the same on a `Worker`";
const BESIDE_A_THREAD: &str = "the same on a foreign thread, while another one does so";
const BESIDE_A_WORKER: &str = "the same on a `Worker`, while another one does so";
const EXPIRY: &str = "expiry of a `Sleep`, its wake-up included, 1,000 due at once";

const UNPOLLED: &str = "`sleep` of 500 s: made and dropped unpolled";
const RESET: &str = "`Sleep::reset` to a given later instant";
const RESET_BY_THE_CLOCK: &str = "`Sleep::reset(Instant::now() + d)`";
const TIMEOUT: &str = "`timeout` around what is ready";
const VISITED: &str = "the same on a foreign thread, after another thread took the base lock";
const WITH_THREAD_SLACK: &str = "the same on a foreign thread whose timers have 1 ms of slack";
const WITH_SLACK: &str = "`sleep` of 500 s with 1 ms of slack: made, polled once, dropped";
const RESET_FROM_STD: &str =
    "`Sleep::reset` to a later instant of the standard library's, which is a sum";
const RESET_VISITED: &str =
    "`Sleep::reset` to a given later instant, after another thread took the base lock";
const RESET_WITH_SLACK: &str = "`Sleep::reset` with 1 ms of slack to a given later instant";

const POLLED_AGAIN: &str =
    "`Sleep`, pending, polled again by its task, as a `timeout` is at each wake-up";

const FOREIGN_DROP_COARSE: &str = "drop of a `coarse::Sleep` that another thread armed, the same";
const FOREIGN_DROP: &str = "drop of a `Sleep` that another thread armed, 1,000 in a row";

#[rustfmt::skip]
const ROWS: [Row; 24] = [
    (MADE_AND_DROPPED, Aim::Instructions(200), || foreign(polled_and_dropped)),
    (ON_A_WORKER, Aim::Instructions(180), || on_a_worker(|_| polled_and_dropped())),
    (BESIDE_A_THREAD, Aim::Of(MADE_AND_DROPPED, 100), || {
        foreign(|| beside_another(|| drop(worker()), polled_and_dropped));
    }),
    (BESIDE_A_WORKER, Aim::Of(ON_A_WORKER, 100), || on_a_worker(|_| beside_another(worker, polled_and_dropped))),
    (VISITED, Aim::Instructions(300), || {
        foreign(|| {
            be_visited();
            polled_and_dropped();
        });
    }),
    (WITH_THREAD_SLACK, Aim::OfPeer(100), || {
        tickless::time::set_thread_slack(SLACK);
        foreign(polled_and_dropped);
    }),
    ("`coarse::sleep` of 500 s, the same; foreign thread", Aim::Instructions(200), || {
        foreign(|| rounds(|| poll_once(pin!(tickless::coarse::sleep(SLEEP)))));
    }),
    (UNPOLLED, Aim::Instructions(35), || {
        foreign(|| rounds(|| drop(black_box(tickless::time::sleep(black_box(SLEEP))))));
    }),
    (RESET, Aim::Instructions(45), || on_a_worker(|_| reset(Precision::Exact, |_, deadline| *deadline))),
    (RESET_BY_THE_CLOCK, Aim::Instructions(90), || {
        on_a_worker(|_| reset(Precision::Exact, |after, _| Instant::now() + after));
    }),
    (RESET_FROM_STD, Aim::OfPeer(100), || {
        let begun = StdInstant::now();
        on_a_worker(move |_| reset(Precision::Exact, |after, _| Instant::from_std(begun + after)));
    }),
    (RESET_VISITED, Aim::OfPeer(100), || {
        on_a_worker(|_| {
            be_visited();
            reset(Precision::Exact, |_, deadline| *deadline);
        });
    }),
    (WITH_SLACK, Aim::OfPeer(100), || {
        foreign(|| rounds(|| poll_once(pin!(tickless::time::sleep(SLEEP).slack(SLACK)))));
    }),
    (RESET_WITH_SLACK, Aim::OfPeer(100), || on_a_worker(|_| reset(SLACK, |_, deadline| *deadline))),
    (POLLED_AGAIN, Aim::OfPeer(100), || on_a_worker(|_| polled_again(tickless::time::sleep(SLEEP)))),
    (TIMEOUT, Aim::Instructions(60), || {
        foreign(|| rounds(|| poll_once(pin!(tickless::time::timeout(SLEEP, ready(()))))));
    }),
    ("`WheelTimer`: start and cancel", Aim::Instructions(160), || {
        on_a_worker(|_| {
            let timer = pin!(wheel_timer());
            rounds(|| {
                let _ = timer.as_ref().start(SLEEP);
                timer.as_ref().cancel_queued();
            });
        });
    }),
    ("`WheelTimer`: start again, within its bucket", Aim::Instructions(60), || {
        on_a_worker(|_| {
            let timer = pin!(wheel_timer());
            let mut deadline = Instant::now() + SLEEP;
            let _ = timer.as_ref().start(deadline);
            rounds(|| {
                deadline += 100 * STEP;
                let _ = timer.as_ref().start(deadline);
            });
        });
    }),
    ("`HrTimer`: start and cancel, far", Aim::Instructions(200), || {
        on_a_worker(|_| {
            let timer = pin!(exact_timer());
            let mut deadline = Instant::now() + SLEEP;
            rounds(|| {
                deadline += STEP;
                let _ = timer.as_ref().start(deadline);
                timer.as_ref().cancel();
            });
        });
    }),
    ("`HrTimer`: start again, later", Aim::Instructions(60), || {
        on_a_worker(|_| {
            let timer = pin!(exact_timer());
            let mut deadline = Instant::now() + SLEEP;
            let _ = timer.as_ref().start(deadline);
            rounds(|| {
                deadline += STEP;
                let _ = timer.as_ref().start(deadline);
            });
        });
    }),
    ("`Worker::is_due`, nothing due", Aim::Instructions(30), || {
        on_a_worker(|worker| rounds(|| _ = black_box(worker.is_due())));
    }),
    (EXPIRY, Aim::OfPeer(50), expiry),
    (FOREIGN_DROP, Aim::OfPeer(100), || foreign(|| foreign_drops(|| tickless::time::sleep(SLEEP), || {}))),
    (FOREIGN_DROP_COARSE, Aim::OfPeer(100), || foreign(|| foreign_drops(|| tickless::coarse::sleep(SLEEP), || {}))),
];

/// The rows that tokio can execute too: the names of the operation, and the function that executes tokio's rounds.
#[rustfmt::skip]
const PEERS: [(&str, &str, fn()); 15] = [
    (VISITED, "tokio, sleep beside a visitor", tokio_polled_and_dropped),
    (WITH_THREAD_SLACK, "tokio, sleep, as late as the thread", tokio_polled_and_dropped),
    (MADE_AND_DROPPED, "tokio, sleep", tokio_polled_and_dropped),
    (WITH_SLACK, "tokio, sleep, as late", tokio_polled_and_dropped),
    (RESET_FROM_STD, "tokio, reset from std", || {
        let begun = StdInstant::now();
        in_tokio(|| reset_tokio(|after, _| (begun + after).into()));
    }),
    (RESET_VISITED, "tokio, reset beside a visitor", || in_tokio(|| reset_tokio(|_, deadline| *deadline))),
    (RESET_WITH_SLACK, "tokio, reset, as late", || in_tokio(|| reset_tokio(|_, deadline| *deadline))),
    (UNPOLLED, "tokio, unpolled", || {
        in_tokio(|| rounds(|| drop(black_box(tokio::time::sleep(black_box(SLEEP))))));
    }),
    (RESET, "tokio, reset", || in_tokio(|| reset_tokio(|_, deadline| *deadline))),
    (RESET_BY_THE_CLOCK, "tokio, reset by the clock", || {
        in_tokio(|| reset_tokio(|after, _| tokio::time::Instant::now() + after));
    }),
    (POLLED_AGAIN, "tokio, polled again", || in_tokio(|| polled_again(tokio::time::sleep(SLEEP)))),
    (TIMEOUT, "tokio, timeout", || {
        in_tokio(|| rounds(|| poll_once(pin!(tokio::time::timeout(SLEEP, ready(()))))));
    }),
    (EXPIRY, "tokio, expiry", tokio_expiry),
    (FOREIGN_DROP, "tokio, foreign drop", tokio_foreign_drops),
    (FOREIGN_DROP_COARSE, "tokio, foreign drop beside coarse ones", tokio_foreign_drops),
];

pub(super) fn operations() -> Vec<Operation> {
    ROWS.iter()
        .map(|&(name, aim, _)| {
            let batch = match name {
                EXPIRY | FOREIGN_DROP | FOREIGN_DROP_COARSE => DUE,
                _ => 1,
            };
            let peer = PEERS.iter().find(|peer| peer.0 == name);
            Operation {
                name,
                batch,
                peer: peer.map(|peer| (peer.1, batch)),
                aim,
            }
        })
        .collect()
}

/// Executes the rounds of an operation, ours or tokio's.
pub(super) fn execute(name: &str) {
    tickless::internals::emulate_clock();
    let own = ROWS.iter().find(|row| row.0 == name).map(|row| row.2);
    let peer = PEERS.iter().find(|peer| peer.1 == name).map(|peer| peer.2);
    own.or(peer).expect("the name is one of the table")();
}

/// Executes `body` twice a round and counts the second execution. While callgrind wrote its counts, so much time passed
/// that the first execution reads the kernel's clock.
fn rounds(mut body: impl FnMut()) {
    for _ in 0..ROUNDS {
        if IS_VISITED.load(Ordering::Relaxed) {
            visit();
        }
        body();
        counted(&mut body);
    }
}

// Always: whether polling is part of its caller is not to hang on how large the caller is.
#[inline(always)]
fn poll_once(mut future: Pin<&mut impl Future>) {
    let mut context = Context::from_waker(Waker::noop());
    black_box(future.as_mut().poll(&mut context).is_pending());
}

/// Returns the distance of a pending timer's deadline, from 100 to 1,100 s; timers of the row itself have their own.
fn after(number: u64) -> Duration {
    Duration::from_micros(100_000_000 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000)
}

fn pending<F: Future>(make: impl Fn(Duration) -> F) -> Vec<Pin<Box<F>>> {
    (0..PENDING)
        .map(|number| {
            let mut future = Box::pin(make(after(number)));
            poll_once(future.as_mut());
            future
        })
        .collect()
}

/// Executes `body` on a thread whose timers the expiry thread fires.
fn foreign(body: impl FnOnce()) {
    // As long as a worker takes to know the rate of the counter.
    drop(worker());
    with_others(body);
}

fn on_a_worker(body: impl FnOnce(&Worker)) {
    let worker = worker();
    with_others(|| body(&worker));
}

fn with_others(body: impl FnOnce()) {
    // Until the base lock is biased towards this thread, as that of a thread that uses timers for long is.
    for _ in 0..tickless_link::bias::REBIAS_AFTER {
        poll_once(pin!(tickless::time::sleep(SLEEP)));
    }
    let _exact = pending(tickless::time::sleep);
    let _coarse = pending(tickless::coarse::sleep);
    body();
}

/// True if another thread visits this thread before each round.
static IS_VISITED: AtomicBool = AtomicBool::new(false);

/// Has another thread take the base lock of this thread before each of the [`rounds`] that follow, which makes the lock
/// ordinary for more operations than a round executes.
fn be_visited() {
    // Relaxed: this thread reads it.
    IS_VISITED.store(true, Ordering::Relaxed);
}

fn visit() {
    let mut sleep = Box::pin(tickless::time::sleep(SLEEP));
    poll_once(sleep.as_mut());
    thread::scope(|scope| {
        scope.spawn(|| drop(sleep));
    });
}

fn in_tokio(body: impl FnOnce()) {
    let runtime = runtime();
    let _entered = runtime.enter();
    let _others = pending(tokio::time::sleep);
    body();
}

fn polled_and_dropped() {
    rounds(|| poll_once(pin!(tickless::time::sleep(SLEEP))));
}

/// Executes `body` while another thread arms and drops sleeps of its own. That thread keeps the result of `begin` until
/// the end.
fn beside_another<W>(begin: fn() -> W, body: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (begun, wait) = mpsc::channel();
        let is_over = &is_over;
        scope.spawn(move || {
            let _kept = begin();
            let _always = begun.send(());
            // Relaxed: nothing else is told by it.
            while !is_over.load(Ordering::Relaxed) {
                poll_once(pin!(tickless::time::sleep(SLEEP)));
            }
        });
        let _always = wait.recv();
        body();
        is_over.store(true, Ordering::Relaxed);
    });
}

fn tokio_polled_and_dropped() {
    in_tokio(|| rounds(|| poll_once(pin!(tokio::time::sleep(SLEEP)))));
}

fn polled_again(sleep: impl Future) {
    let mut sleep = pin!(sleep);
    poll_once(sleep.as_mut());
    rounds(|| poll_once(sleep.as_mut()));
}

fn reset(slack: Precision, next: impl Fn(Duration, &Instant) -> Instant) {
    let mut sleep = pin!(tickless::time::sleep(SLEEP).slack(slack));
    poll_once(sleep.as_mut());
    let (mut after, mut deadline) = (SLEEP, sleep.deadline());
    rounds(|| {
        after += STEP;
        deadline += STEP;
        sleep.as_mut().reset(next(after, &deadline));
    });
}

fn reset_tokio(next: impl Fn(Duration, &tokio::time::Instant) -> tokio::time::Instant) {
    let mut sleep = pin!(tokio::time::sleep(SLEEP));
    poll_once(sleep.as_mut());
    let (mut after, mut deadline) = (SLEEP, sleep.deadline());
    rounds(|| {
        after += STEP;
        deadline += STEP;
        sleep.as_mut().reset(next(after, &deadline));
    });
}

fn wheel_timer() -> WheelTimer<fn(&mut Timeout) -> Restart> {
    WheelTimer::new(|_| Restart::No)
}

fn exact_timer() -> HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> ExactRestart> {
    HrTimer::new(|_| ExactRestart::No)
}

/// A waker that counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The delay of the sleeps of a round: long enough to arm all of them, even in valgrind.
const SOON: Duration = Duration::from_millis(300);

/// Arms the sleeps of a round, waits until they are due, and calls `expire`, which expires them and is counted.
fn expiries<F: Future>(make: impl Fn() -> F, mut expire: impl FnMut()) {
    for _ in 0..FEW_ROUNDS {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let sleeps: Vec<_> = (0..DUE)
            .map(|_| {
                let mut sleep = Box::pin(make());
                let mut context = Context::from_waker(&waker);
                assert!(sleep.as_mut().poll(&mut context).is_pending());
                sleep
            })
            .collect();
        thread::sleep(SOON + Duration::from_millis(2));
        counted(&mut expire);
        assert_eq!(woken.0.load(Ordering::Relaxed), DUE, "all were due");
        drop(sleeps);
    }
}

/// Drops sleeps that another thread armed, and counts the drops. The other thread calls `begin` first and stays alive.
fn foreign_drops<F: Future + Send>(make: impl Fn() -> F + Sync, begin: impl Fn() + Sync) {
    for _ in 0..FEW_ROUNDS {
        let (give, take) = mpsc::channel();
        let (done, wait) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (make, begin) = (&make, &begin);
            scope.spawn(move || {
                begin();
                let armed = |_| {
                    let mut sleep = Box::pin(Some(make()));
                    let future = sleep.as_mut().as_pin_mut();
                    poll_once(future.expect("it was just made"));
                    sleep
                };
                let sleeps: Vec<_> = (0..DUE).map(armed).collect();
                give.send(sleeps).expect("the other thread waits for it");
                // Until it hangs up.
                let _hung_up = wait.recv();
            });
            let mut sleeps = take.recv().expect("the other thread arms them");
            counted(&mut || {
                for sleep in &mut sleeps {
                    sleep.as_mut().set(None);
                }
            });
            drop(done);
        });
    }
}

fn tokio_foreign_drops() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let handle = runtime.handle();
    foreign_drops(
        || tokio::time::sleep(SLEEP),
        || std::mem::forget(handle.enter()),
    );
}

fn expiry() {
    on_a_worker(|worker| {
        // On a busy machine the expiry thread would fire the sleeps first.
        worker.set_helped(false);
        expiries(
            || tickless::time::sleep(SOON),
            || {
                while worker.is_due() {
                    _ = black_box(worker.turn());
                }
            },
        );
    });
}

fn tokio_expiry() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be built");
    let _entered = runtime.enter();
    expiries(
        || tokio::time::sleep(SOON),
        || runtime.block_on(tokio::task::yield_now()),
    );
}
