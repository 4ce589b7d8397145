//! Tests that compare `DelayQueue` with the `DelayQueue` of tokio-util, by the order of values only, with deadlines far
//! apart.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tickless::time::delay_queue::{self, DelayQueue};

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Reset(usize, u64),
    TryRemove(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_u64..40).prop_map(Step::Insert),
        1 => (any::<usize>(), 0_u64..40).prop_map(|(which, far)| Step::Reset(which, far)),
        1 => any::<usize>().prop_map(Step::TryRemove),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Returns the results of the steps, and the groups in which the values come out; values of one deadline are a set.
macro_rules! observe {
    ($queue:ty, $instant:ty, $steps:expr) => {{
        let mut queue = <$queue>::new();
        let start = <$instant>::now();
        // Ten milliseconds apart: what tokio rounds up keeps its order.
        let at = |far: u64| start + Duration::from_millis(10 * far);
        let mut keys = Vec::new();
        let mut gone: Vec<bool> = Vec::new();
        let mut log = Vec::new();
        for step in $steps {
            match *step {
                Step::Insert(far) => {
                    keys.push(queue.insert_at(keys.len(), at(far)));
                    gone.push(false);
                }
                Step::Reset(which, far) if !keys.is_empty() => {
                    let which = which % keys.len();
                    if !gone[which] {
                        queue.reset_at(&keys[which], at(far));
                        // tokio-util's is rounded up by less than a millisecond.
                        let is_due = queue.deadline(&keys[which]) >= at(far);
                        log.push((which, is_due, queue.len()));
                    }
                }
                Step::TryRemove(which) if !keys.is_empty() => {
                    let which = which % keys.len();
                    if !gone[which] {
                        let removed = queue.try_remove(&keys[which]);
                        gone[which] = true;
                        log.push((which, removed.is_some(), queue.len()));
                    }
                }
                Step::Reset(..) | Step::TryRemove(_) => {}
            }
        }
        let mut out = Vec::new();
        while let Some(expired) = poll_fn(|context| queue.poll_expired(context)).await {
            let deadline = expired.deadline().duration_since(start).as_millis();
            out.push((deadline, expired.into_inner()));
        }
        // Deadlines that were over when they were inserted come in any order in both.
        out.sort_unstable();
        (log, out)
    }};
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(8)
    })]

    #[test]
    fn the_same_values_come_out_as_of_the_other(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let outcome = runtime.expect("a runtime").block_on(async {
            let ours = observe!(DelayQueue<usize>, tickless::time::Instant, &steps);
            let theirs = observe!(tokio_util::time::DelayQueue<usize>, tokio::time::Instant, &steps);
            (ours, theirs)
        });
        prop_assert_eq!(outcome.0, outcome.1);
    }
}

#[test]
fn values_come_out_in_the_order_of_the_other() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        // What is over when it is inserted has no order: again, if the thread lost its CPU for so long.
        let (mut ours, mut theirs) = loop {
            let mut ours = DelayQueue::new();
            let mut theirs = tokio_util::time::DelayQueue::new();
            let base = tokio::time::Instant::now() + Duration::from_secs(1);
            for step in 0_u64..20 {
                let at = base + Duration::from_millis(20 * ((7 * step) % 20));
                ours.insert_at(step, at.into_std().into());
                theirs.insert_at(step, at);
            }
            if tokio::time::Instant::now() < base {
                break (ours, theirs);
            }
        };
        for _ in 0..20 {
            let ours = poll_fn(|context| ours.poll_expired(context)).await;
            let theirs = poll_fn(|context| theirs.poll_expired(context)).await;
            let ours = ours.map(|expired| expired.into_inner());
            assert!(ours.is_some());
            assert_eq!(ours, theirs.map(|expired| expired.into_inner()));
        }
    });
}

/// A waker that counts how often its task is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Checks that `change` wakes a task that waits for a value in an hour, once and before `change` returns, and that the
/// task finds the value that is due.
#[track_caller]
fn wakes_at_once(change: impl FnOnce(&mut DelayQueue<u8>, delay_queue::Key), value: Option<u8>) {
    let mut queue = DelayQueue::new();
    let key = queue.insert(0, Duration::from_secs(3_600));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    assert!(queue.poll_expired(&mut context).is_pending());
    change(&mut queue, key);
    assert_eq!(woken.0.load(SeqCst), 1);
    let polled = queue.poll_expired(&mut context);
    let came = polled.map(|expired| expired.map(delay_queue::Expired::into_inner));
    assert_eq!(came, Poll::Ready(value));
}

#[test]
fn a_change_that_ends_the_wait_wakes_at_once() {
    let past = || tickless::time::Instant::now() - Duration::from_millis(1);
    wakes_at_once(
        |queue, key| {
            queue.remove(&key);
        },
        None,
    );
    wakes_at_once(|queue, _| queue.clear(), None);
    wakes_at_once(|queue, key| queue.reset_at(&key, past()), Some(0));
    wakes_at_once(
        |queue, _| {
            queue.insert_at(1, past());
        },
        Some(1),
    );
}
