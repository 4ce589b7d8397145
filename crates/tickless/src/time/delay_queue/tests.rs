use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    Expire(u64),
    /// The clock goes back.
    Rewind(u64),
    Shrink,
    Clear,
}

/// Generates near, far, equal and late distances; a shift chooses the digit, so that each digit occurs.
fn distances() -> impl Strategy<Value = u64> {
    (0_u64..8, 0_u32..62).prop_map(|(value, shift)| value << shift)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => distances().prop_map(Step::Insert),
        3 => any::<usize>().prop_map(Step::Remove),
        4 => (any::<usize>(), distances()).prop_map(|(which, far)| Step::Reset(which, far)),
        6 => distances().prop_map(Step::Expire),
        1 => distances().prop_map(Step::Rewind),
        1 => Just(Step::Shrink),
        1 => Just(Step::Clear),
    ];
    proptest::collection::vec(step, 1..200)
}

/// A model of the queue: a map by deadline and order of insertion, and the keys of all values that were ever inserted.
#[derive(Default)]
struct Oracle {
    values: BTreeMap<(u64, u64), (u64, Key)>,
    places: Vec<(Key, Option<(u64, u64)>)>,
    turn: u64,
}

impl Oracle {
    fn put(&mut self, id: usize, deadline: u64, elapsed: u64) {
        let place = (deadline.max(elapsed), self.turn);
        self.turn += 1;
        self.places[id].1 = Some(place);
        self.values.insert(place, (deadline, self.places[id].0));
    }

    fn take(&mut self, id: usize) -> Option<u64> {
        let place = self.places[id].1.take()?;
        self.values.remove(&place).map(|(deadline, _)| deadline)
    }

    /// Puts each value at its deadline, however late it was put there.
    fn rewind(&mut self) {
        let values = std::mem::take(&mut self.values);
        for (old, (deadline, key)) in values {
            let place = (deadline, old.1);
            let of_value = self.places.iter_mut().find(|(_, at)| *at == Some(old));
            if let Some((_, at)) = of_value {
                *at = Some(place);
            }
            self.values.insert(place, (deadline, key));
        }
    }

    fn expire(&mut self, now: u64) -> Option<(u64, Key)> {
        let (&place, &found) = self.values.first_key_value()?;
        if place.0 > now {
            return None;
        }
        self.values.remove(&place);
        for (_, at) in &mut self.places {
            if *at == Some(place) {
                *at = None;
            }
        }
        Some(found)
    }
}

fn agrees(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut wheel = Wheel::with_capacity(0);
    let mut oracle = Oracle::default();
    let mut now: u64 = 1 << 40;
    // Each value is its own number among all that ever were.
    for step in steps {
        match step {
            Step::Insert(far) => {
                let deadline = (now - (1 << 10)).saturating_add(far);
                let elapsed = wheel.elapsed();
                let id = oracle.places.len();
                let key = wheel.insert(deadline, id);
                oracle.places.push((key, None));
                oracle.put(id, deadline, elapsed);
            }
            Step::Remove(which) if !oracle.places.is_empty() => {
                let id = which % oracle.places.len();
                let taken = wheel.remove(oracle.places[id].0);
                prop_assert_eq!(taken.map(|taken| taken.deadline), oracle.take(id));
            }
            Step::Reset(which, far) if !oracle.places.is_empty() => {
                let id = which % oracle.places.len();
                let is_there = oracle.take(id).is_some();
                let elapsed = wheel.elapsed();
                prop_assert_eq!(
                    wheel.reset(oracle.places[id].0, now.saturating_add(far)),
                    is_there
                );
                if is_there {
                    oracle.put(id, now.saturating_add(far), elapsed);
                }
            }
            Step::Expire(on) => {
                now = now.saturating_add(on).min(1 << 62);
                expire_all(&mut wheel, &mut oracle, now)?;
            }
            Step::Rewind(by) => {
                now = now.saturating_sub(by).max(1 << 20);
                wheel.rewind();
                oracle.rewind();
            }
            Step::Shrink => wheel.shrink(),
            Step::Clear => {
                wheel.clear();
                oracle.values.clear();
                for (_, place) in &mut oracle.places {
                    *place = None;
                }
            }
            Step::Remove(_) | Step::Reset(..) => {}
        }
        prop_assert_eq!(wheel.len(), oracle.values.len());
        let first = wheel.peek();
        let expected = oracle.values.values().next().map(|&(_, key)| key);
        prop_assert_eq!(first, expected);
    }
    expire_all(&mut wheel, &mut oracle, u64::MAX)?;
    prop_assert_eq!(wheel.len(), 0);
    Ok(())
}

fn expire_all(
    wheel: &mut Wheel<usize>,
    oracle: &mut Oracle,
    now: u64,
) -> Result<(), TestCaseError> {
    loop {
        let expected = oracle.expire(now);
        match wheel.expire(now) {
            Next::Due(taken) => prop_assert_eq!(Some((taken.deadline, taken.key)), expected),
            Next::Wait(first) => {
                prop_assert!(first > now);
                prop_assert_eq!(expected, None);
                let next = oracle.values.first_key_value().map(|(place, _)| place.0);
                prop_assert!(next.is_some_and(|next| first <= next));
                return Ok(());
            }
            Next::Empty => {
                prop_assert_eq!(expected, None);
                prop_assert!(oracle.values.is_empty());
                return Ok(());
            }
        }
    }
}

proptest! {
    #[test]
    fn the_wheel_does_what_a_map_does(steps in steps()) {
        agrees(steps)?;
    }
}

#[test]
fn equal_deadlines_are_waited_for_once_and_never_move() {
    let mut wheel = Wheel::with_capacity(0);
    for value in 0..1000 {
        wheel.insert(1 << 50, value);
    }
    assert!(matches!(wheel.expire((1 << 50) - 1), Next::Wait(first) if first == 1 << 50));
    for value in 0..1000 {
        assert!(matches!(wheel.expire(1 << 50), Next::Due(taken) if taken.value == value));
        assert!(wheel.elapsed() == 0 || value == 999, "moved");
    }
}

#[test]
fn a_key_outlives_the_room_of_its_value_without_meaning_another() {
    let mut queue = DelayQueue::new();
    let old = queue.insert('a', Duration::from_secs(1));
    queue.clear();
    queue.shrink_to_fit();
    let new = queue.insert('b', Duration::from_secs(1));
    assert!(queue.try_remove(&old).is_none());
    assert_eq!(queue.remove(&new).into_inner(), 'b');
}

#[test]
#[should_panic(expected = "invalid key")]
fn a_reset_by_a_stale_key_panics() {
    let mut queue = DelayQueue::new();
    let key = queue.insert((), Duration::from_secs(1));
    queue.remove(&key);
    queue.reset(&key, Duration::ZERO);
}

/// The two queues were filled alike, so that only the number of the queue distinguishes their keys.
#[test]
fn a_key_of_another_queue_is_refused() {
    let second = Duration::from_secs(1);
    let [mut ours, mut theirs] = [(); 2].map(|()| DelayQueue::new());
    let key = ours.insert('a', second);
    let foreign = theirs.insert('b', second);
    assert_ne!(key, foreign);
    let deadline = ours.deadline(&key);
    assert!(ours.try_remove(&foreign).is_none());
    let removed = catch_unwind(AssertUnwindSafe(|| ours.remove(&foreign)));
    let reset = catch_unwind(AssertUnwindSafe(|| ours.reset(&foreign, Duration::ZERO)));
    let read = catch_unwind(AssertUnwindSafe(|| ours.deadline(&foreign)));
    assert!(removed.is_err() && reset.is_err() && read.is_err());
    assert_eq!(ours.peek(), Some(key));
    assert_eq!(ours.deadline(&key), deadline);
    let removed = ours.remove(&key);
    assert_eq!((removed.key(), removed.into_inner()), (key, 'a'));
    assert_eq!(theirs.remove(&foreign).into_inner(), 'b');
}

/// A waker that counts its wakes.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn wakes_in_time(count: &Count) -> bool {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while count.0.load(Ordering::SeqCst) == 0 {
        if std::time::Instant::now() > end {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn a_task_that_found_the_queue_empty_is_woken_by_an_insertion() {
    let mut queue = DelayQueue::new();
    let count = Arc::new(Count::default());
    let waker = count.clone().into();
    assert!(matches!(
        queue.poll_expired(&mut Context::from_waker(&waker)),
        Poll::Ready(None)
    ));
    queue.insert(0, Duration::from_secs(3600));
    assert!(wakes_in_time(&count));
}

#[test]
fn values_never_come_out_early() {
    let mut queue = DelayQueue::new();
    // Before all of them, and the same for all: the thread may lose its CPU between two.
    let start = std::time::Instant::now();
    for micros in [700, 20, 300, 20, 1_500] {
        let duration = Duration::from_micros(micros);
        queue.insert_at(duration, (start + duration).into());
    }
    let mut last = Duration::ZERO;
    while let Some(expired) =
        futures::executor::block_on(std::future::poll_fn(|context| queue.poll_expired(context)))
    {
        let duration = expired.into_inner();
        assert!(start.elapsed() >= duration);
        assert!(last <= duration);
        last = duration;
    }
    assert_eq!(last, Duration::from_micros(1_500));
}
