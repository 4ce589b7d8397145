//! Tests that a tree orders the entries of a bucket array as if each had been enqueued alone.

use super::*;
use std::vec;

use crate::buckets::{BucketArray, BucketState, Gathered, Gathering};

struct Queues {
    buckets: BucketArray<Numbered, 1>,
    tree: Tree<Numbered>,
    gathering: Option<Gathering<Numbered>>,
}

impl Queues {
    fn new() -> Self {
        let [buckets, tree] = Realm::new().keys();
        Self {
            buckets: BucketArray::new(buckets),
            tree: Tree::new(tree),
            gathering: None,
        }
    }

    /// Puts an idle entry on a list; `key` is what its head says.
    fn put(&mut self, entry: EntryRef<'_, Numbered>, list: usize, key: u32) {
        self.tree.bind(entry);
        let mut slot = self.tree.open(entry).expect("it is idle in the tree");
        *slot.head() = key;
        slot.put_idle_in_bucket(&mut self.buckets, list);
    }

    fn gather(&mut self, list: usize, until: u32) -> (u32, bool) {
        let gathered = self.gather_some(list, u32::MAX, |head| head <= until);
        (gathered.count, gathered.left == BucketState::Vacated(list))
    }

    fn gather_some(&mut self, list: usize, limit: u32, is_meant: impl Fn(u32) -> bool) -> Gathered {
        let key_of = |head: &u32| is_meant(*head).then_some(i64::from(*head));
        let gathering = self
            .gathering
            .get_or_insert_with(|| Gathering::new(&self.tree));
        let gathered = self.buckets.gather(list, limit, gathering, key_of);
        self.assert_valid();
        gathered
    }

    fn receive(&mut self) {
        if let Some(gathering) = self.gathering.take() {
            self.tree.receive(gathering);
        }
        self.assert_valid();
    }

    fn assert_valid(&self) {
        self.tree.assert_valid();
        self.buckets.assert_valid();
    }

    fn run_len(&self) -> usize {
        let mut len = 0;
        self.tree.for_each(0, |entry, _, _| {
            len += usize::from(entry.is_in_run());
            true
        });
        len
    }

    /// Expires what the run holds until a key, into so many places, and compares with the oracle.
    fn expire_run(&mut self, places: usize, until: i64, oracle: &mut Oracle) {
        let in_run = self.run_len();
        let due = oracle.0.iter().take_while(|entry| entry.1 <= until).count();
        let mut tokens = vec![0; places];
        let is_due = |key, _: &u32| key <= until;
        let (fired, running) = self.tree.expire_run(is_due, &mut tokens, false);
        assert!(running.is_none());
        assert_eq!(fired, places.min(due).min(in_run));
        for token in &tokens[..fired] {
            assert_eq!(*token, u64::from(oracle.0.remove(0).0));
        }
    }

    fn on_buckets(&self) -> Vec<u16> {
        let mut tags = Vec::new();
        self.buckets.for_each(|entry, _, _| {
            tags.push(entry.tag());
            true
        });
        tags
    }
}

/// Entries with the tags 0, 1, 2, ..., which were gathered from one list in that order.
fn received(entries: &[Pin<Box<SilentEntry>>], keys: &[u32]) -> Queues {
    let mut queues = Queues::new();
    for (entry, key) in entries.iter().zip(keys) {
        queues.put(erase(entry), 3, *key);
    }
    let (count, is_vacated) = queues.gather(3, u32::MAX);
    assert_eq!((count as usize, is_vacated), (keys.len(), true));
    queues.receive();
    queues
}

fn entries(count: u16) -> Vec<Pin<Box<SilentEntry>>> {
    (0..count).map(entry).collect()
}

#[test]
fn what_is_not_meant_stays_where_it_is() {
    let timers = entries(6);
    let mut queues = Queues::new();
    for (timer, key) in timers.iter().zip([1, 8, 2, 9, 7, 3]) {
        queues.put(erase(timer), 3, key);
    }
    assert_eq!(queues.gather(3, 5), (3, false));
    assert_eq!(queues.on_buckets(), [1, 3, 4]);
    // Those that the limit leaves unseen stay, too.
    let limited = queues.gather_some(3, 1, |_| false);
    assert_eq!((limited.count, limited.is_whole), (0, false));
    queues.assert_valid();
    let limited = queues.gather_some(3, 2, |head| head == 9);
    assert!(!limited.is_whole);
    assert_eq!(limited.count, 1);
    queues.assert_valid();
    assert_eq!(queues.on_buckets(), [1, 4]);
    queues.receive();
    assert_eq!(order(&queues.tree), [0, 2, 5, 3]);
    assert_eq!(queues.gather(3, u32::MAX), (2, true));
    queues.receive();
    assert_eq!(order(&queues.tree), [0, 2, 5, 4, 1, 3]);
}

#[test]
fn more_of_the_tree_than_was_gathered_is_left_in_the_tree() {
    let timers = entries(22);
    let mut queues = Queues::new();
    for (timer, key) in timers[..20].iter().zip(0..) {
        start(&mut queues.tree, erase(timer), key);
    }
    queues.put(erase(&timers[20]), 3, 1);
    queues.put(erase(&timers[21]), 3, 15);
    queues.gather(3, u32::MAX);
    queues.receive();
    let mut expected: Vec<u16> = (0..20).collect();
    expected.insert(1, 20);
    expected.insert(16, 21);
    assert_eq!(order(&queues.tree), expected);
}

#[test]
fn what_comes_between_ends_the_run_and_what_comes_behind_does_not() {
    let timers = entries(6);
    let mut queues = received(&timers[..3], &[2, 4, 6]);
    assert!(!start(&mut queues.tree, erase(&timers[3]), 6));
    queues.assert_valid();
    assert!(queues.tree.first().expect("not empty").is_in_run());
    assert!(!start(&mut queues.tree, erase(&timers[4]), 4));
    queues.assert_valid();
    assert!(!queues.tree.first().expect("not empty").is_in_run());
    assert!(start(&mut queues.tree, erase(&timers[5]), 1));
    queues.assert_valid();
    assert_eq!(order(&queues.tree), [5, 0, 1, 4, 2, 3]);
}

#[test]
fn a_run_is_expired_up_to_the_first_that_has_a_callback() {
    let timers = entries(4);
    let calling = Box::pin(Entry::new(0, 9, 0, (), (), Calling(0)));
    let mut queues = Queues::new();
    for (timer, key) in timers[..2].iter().zip([1, 3]) {
        queues.put(erase(timer), 3, key);
    }
    queues.put(erase(&calling), 3, 2);
    queues.put(erase(&timers[2]), 3, 4);
    assert_eq!(queues.gather(3, u32::MAX), (4, true));
    queues.receive();
    // The one inserted last is remembered, and stands behind the run.
    start(&mut queues.tree, erase(&timers[3]), 5);
    let mut tokens = [u64::MAX; 4];
    let all = |_, _: &u32| true;
    let (fired, running) = queues.tree.expire_run(all, &mut tokens, false);
    assert_eq!((fired, tokens[0]), (1, 0));
    assert!(running.is_none(), "what is in front comes first");
    assert!(!queues.tree.first_is_taken());
    let (fired, running) = queues.tree.expire_run(all, &mut tokens, true);
    assert!(fired == 0 && running.is_none());
    let (fired, running) = queues.tree.expire_run(all, &mut tokens, false);
    assert_eq!(fired, 0);
    let running = running.expect("the second one has a callback");
    assert_eq!(running.tag(), 9);
    assert!(queues.tree.open_running(&running).is_some());
    queues.assert_valid();
    running.stop(&mut queues.tree);
    assert!(calling.state().is_idle());
    // What is behind the run is left, whatever is due.
    let (fired, running) = queues.tree.expire_run(all, &mut tokens, false);
    assert!(running.is_none());
    assert_eq!((fired, &tokens[..2]), (2, [1, 2].as_slice()));
    assert_eq!(order(&queues.tree), [3]);
    queues.assert_valid();
}

#[test]
fn callbacks_of_the_run_are_called_one_by_one_up_to_the_first_entry_without() {
    let timers = entries(2);
    let calling = [8, 9].map(|tag| Box::pin(Entry::new(0, tag, 0, (), (), Calling(0))));
    let mut queues = Queues::new();
    queues.put(erase(&calling[1]), 3, 2);
    queues.put(erase(&timers[0]), 3, 3);
    queues.put(erase(&calling[0]), 3, 1);
    queues.gather(3, u32::MAX);
    queues.receive();
    start(&mut queues.tree, erase(&timers[1]), 9);
    assert!(queues.tree.expire_called(|key, _| key < 1).is_none());
    for (tag, key) in [(8, 1), (9, 2)] {
        let due = queues.tree.expire_called(|_, _| true);
        let (running, head) = due.expect("it has a callback");
        assert_eq!((running.tag(), head), (tag, key));
        queues.assert_valid();
        running.stop(&mut queues.tree);
    }
    assert!(queues.tree.has_run());
    assert!(queues.tree.expire_called(|_, _| true).is_none());
    assert_eq!(order(&queues.tree), [0, 1]);
}

#[test]
fn many_are_sorted_however_their_keys_are_spread() {
    let count = if cfg!(miri) { 65 } else { 500 };
    // Around the lengths of what is sorted at a time; under Miri one beyond each.
    let lens: &[u32] = if cfg!(miri) {
        &[2, 33, count]
    } else {
        &[2, 31, 32, 33, 64, 65, count]
    };
    let mixed = |number: u32| number.wrapping_mul(0x9E37_79B1) >> 8;
    let spreads: [&dyn Fn(u32) -> u32; 6] = [
        &|number| mixed(number),
        &|number| mixed(number) % 3,
        &|number| 1_000_000 - number,
        // All but the last in one list of those over which they are spread.
        &|number| {
            if number + 1 < count {
                mixed(number) % 100
            } else {
                u32::MAX
            }
        },
        &|_| 7,
        &|number| {
            if number % 2 == 0 {
                number
            } else {
                u32::MAX - number
            }
        },
    ];
    for spread in spreads {
        for &len in lens {
            let keys: Vec<u32> = (0..len).map(spread).collect();
            let timers = entries(u16::try_from(len).expect("a few"));
            let queues = received(&timers, &keys);
            let mut expected: Vec<u16> = (0..).take(keys.len()).collect();
            expected.sort_by_key(|tag| keys[usize::from(*tag)]);
            assert_eq!(order(&queues.tree), expected);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize, u32),
    Gather(usize, u32),
    Start(i64),
    Remove(usize),
    Reposition(usize, i64),
    MoveInPlace(usize, i64),
    Expire,
    ExpireRun(usize, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..12_u32;
    let step = prop_oneof![
        6 => (0..3_usize, key()).prop_map(|(list, key)| Step::Put(list, key)),
        2 => (0..3_usize, key()).prop_map(|(list, key)| Step::Gather(list, key)),
        3 => (0..12_i64).prop_map(Step::Start),
        2 => any::<usize>().prop_map(Step::Remove),
        2 => (any::<usize>(), 0..12_i64).prop_map(|(which, key)| Step::Reposition(which, key)),
        1 => (any::<usize>(), 0..12_i64).prop_map(|(which, key)| Step::MoveInPlace(which, key)),
        2 => Just(Step::Expire),
        2 => (0..4_usize, 0..12_i64).prop_map(|(places, until)| Step::ExpireRun(places, until)),
    ];
    proptest::collection::vec(step, 1..if cfg!(miri) { 40 } else { 120 })
}

/// Content of the tree, in order: tag, key, and whether the entry is old.
#[derive(Default)]
struct Oracle(Vec<(u16, i64, bool)>);

impl Oracle {
    fn insert(&mut self, tag: u16, key: i64, is_old: bool) {
        let place = self.0.iter().position(|&(_, other, other_is_old)| {
            other > key || (other == key && is_old && !other_is_old)
        });
        self.0
            .insert(place.unwrap_or(self.0.len()), (tag, key, is_old));
    }

    fn move_in_place(&mut self, place: usize, key: i64) -> bool {
        if self.0[place].1 == key {
            return true;
        }
        let is_behind = place == 0 || self.0[place - 1].1 <= key;
        let moves = is_behind && self.0.get(place + 1).is_none_or(|next| key < next.1);
        if moves {
            self.0[place] = (self.0[place].0, key, false);
        }
        moves
    }
}

fn play(steps: &[Step]) {
    let timers = entries(120);
    let mut unused = timers.iter();
    let mut queues = Queues::new();
    let mut lists: [Vec<(u16, u32)>; 3] = Default::default();
    let mut oracle = Oracle::default();
    for step in steps {
        let count = oracle.0.len();
        match *step {
            Step::Put(list, key) => {
                let timer = unused.next().expect("one for each step");
                queues.put(erase(timer), list, key);
                lists[list].push((timer.tag(), key));
            }
            Step::Gather(list, until) => {
                queues.gather(list, until);
                queues.receive();
                let mut gathered: Vec<_> = lists[list]
                    .iter()
                    .copied()
                    .filter(|entry| entry.1 <= until)
                    .collect();
                lists[list].retain(|entry| entry.1 > until);
                gathered.sort_by_key(|entry| entry.1);
                for (tag, key) in gathered {
                    oracle.insert(tag, i64::from(key), true);
                }
            }
            Step::Start(key) => {
                let timer = unused.next().expect("one for each step");
                start(&mut queues.tree, erase(timer), key);
                oracle.insert(timer.tag(), key, false);
            }
            Step::Expire => {
                let fired = queues.tree.open_first().map(OwnedEntry::expire);
                let expected = (count > 0).then(|| oracle.0.remove(0).0);
                match fired {
                    Some(Fired::Done(tag)) => assert_eq!(Some(tag), expected.map(u64::from)),
                    _ => assert_eq!(expected, None),
                }
            }
            Step::ExpireRun(places, until) => queues.expire_run(places, until, &mut oracle),
            Step::Remove(which) if count > 0 => {
                let (tag, ..) = oracle.0.remove(which % count);
                let slot = queues.tree.open(erase(&timers[usize::from(tag)]));
                assert_eq!(slot.expect("it is here").remove(), Some(which % count == 0));
            }
            Step::Reposition(which, key) if count > 0 => {
                let (tag, ..) = oracle.0.remove(which % count);
                let slot = queues.tree.open(erase(&timers[usize::from(tag)]));
                slot.expect("it is here").reposition(key);
                oracle.insert(tag, key, false);
            }
            Step::MoveInPlace(which, key) if count > 0 => {
                let moves = oracle.move_in_place(which % count, key);
                let (tag, ..) = oracle.0[which % count];
                let slot = queues.tree.open(erase(&timers[usize::from(tag)]));
                assert_eq!(slot.expect("it is here").move_in_place(key), moves);
            }
            Step::Remove(_) | Step::Reposition(..) | Step::MoveInPlace(..) => {}
        }
        queues.assert_valid();
        let expected: Vec<u16> = oracle.0.iter().map(|entry| entry.0).collect();
        assert_eq!(order(&queues.tree), expected);
    }
}

proptest! {
    #![proptest_config(crate::properties::config(2))]

    #[test]
    fn a_run_and_a_tree_behave_like_one_list(steps in steps()) {
        play(&steps);
    }
}
