//! Tests that compare the tree with an ordered map of (key, sequence of insertion).

use core::cell::Cell;
use core::pin::Pin;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::entry::{Always, Entry, Expiry, Member, Owner, Running};
use crate::id::Realm;

mod run;
mod summary;

/// Entries that carry a name and count their callbacks.
#[derive(Debug)]
struct Numbered;

impl Family for Numbered {
    type Key = i64;
    type Tag = u16;
    type Head = u32;
    type Shared = ();
    type Branches = Branches<Self>;
    type Token = u64;
    type Context<'a> = &'a Cell<u32>;
    type Answer = bool;

    fn rank(key: i64) -> i64 {
        key
    }
}

/// Expires by giving its number away.
struct Silent;

impl Member<Numbered> for Silent {
    type Guarded = u64;
    const EXPIRY: Always<u64, u64> = Always::TAKEN;
    fn expire(guarded: &mut u64) -> Expiry<u64> {
        Expiry::Done(*guarded)
    }
    fn call(&mut self, _context: &mut &Cell<u32>) -> bool {
        unreachable!("it expires without a call")
    }
}

struct Calling(u32);

impl Member<Numbered> for Calling {
    type Guarded = ();
    const EXPIRY: Always<(), u64> = Always::CALLED;
    fn expire((): &mut ()) -> Expiry<u64> {
        Expiry::Call
    }
    fn call(&mut self, context: &mut &Cell<u32>) -> bool {
        self.0 += 1;
        context.set(context.get() + self.0);
        true
    }
}

type SilentEntry = Entry<Numbered, Silent>;

fn tree() -> Tree<Numbered> {
    let [key] = Realm::new().keys();
    Tree::new(key)
}

fn entry(number: u16) -> Pin<Box<SilentEntry>> {
    Box::pin(Entry::new(0, number, 0, (), u64::from(number), Silent))
}

fn erase<M: Member<Numbered> + Send + 'static>(
    entry: &Pin<Box<Entry<Numbered, M>>>,
) -> EntryRef<'_, Numbered> {
    entry.as_ref().erase()
}

fn start(tree: &mut Tree<Numbered>, entry: EntryRef<'_, Numbered>, key: i64) -> bool {
    tree.bind(entry);
    tree.open(entry).expect("bound here").insert(key)
}

fn order(tree: &Tree<Numbered>) -> Vec<u16> {
    let mut tags = Vec::new();
    tree.for_each(0, |entry, _, _| {
        tags.push(entry.tag());
        true
    });
    tags
}

#[test]
fn an_entry_belongs_to_the_queue_it_was_bound_to() {
    let timer = entry(1);
    let mut here = tree();
    let mut there = tree();
    assert_eq!(timer.owner(), Owner::Unbound);
    assert!(here.open(erase(&timer)).is_none());
    assert!(here.bind(erase(&timer)));
    assert!(!there.bind(erase(&timer)), "an owner cannot be overruled");
    assert_eq!(timer.owner(), Owner::Queue(here.id()));
    assert!(there.open(erase(&timer)).is_none());
    assert!(here.open(erase(&timer)).is_some());
}

#[test]
fn queueing_says_who_is_first() {
    let timers = [entry(0), entry(1), entry(2)];
    let mut tree = tree();
    assert!(start(&mut tree, erase(&timers[0]), 50));
    assert!(!start(&mut tree, erase(&timers[1]), 70));
    assert!(start(&mut tree, erase(&timers[2]), 30));
    tree.assert_valid();
    assert_eq!(order(&tree), [2, 0, 1]);
    assert_eq!(tree.first_key(), Some(30));
    assert_eq!(
        tree.second().map(|(entry, key)| (entry.tag(), key)),
        Some((0, 50))
    );
}

#[test]
fn an_idle_entry_has_no_place_to_keep() {
    let timer = entry(0);
    let mut tree = tree();
    tree.bind(erase(&timer));
    let mut slot = tree.open(erase(&timer)).expect("bound");
    assert!(!slot.move_in_place(1));
    assert_eq!(slot.remove(), None);
}

#[test]
fn a_journey_keeps_the_entry_queued_for_every_observer() {
    let timers = [entry(0), entry(1)];
    let mut from = tree();
    let mut to = tree();
    start(&mut from, erase(&timers[0]), 10);
    start(&mut from, erase(&timers[1]), 20);
    let transit = from.open(erase(&timers[0])).expect("bound").depart();
    from.assert_valid();
    assert!(timers[0].state().is_queued());
    assert_eq!(timers[0].owner(), Owner::Transit);
    assert!(from.open(erase(&timers[0])).is_none() && to.open(erase(&timers[0])).is_none());
    assert!(to.admit(transit, 99, |head| *head = 5));
    to.assert_valid();
    assert_eq!(timers[0].owner(), Owner::Queue(to.id()));
    assert_eq!(*to.open(erase(&timers[0])).expect("moved").head(), 5);
    assert_eq!((from.len(), to.len()), (1, 1));
}

#[test]
fn an_expiry_without_a_call_leaves_the_entry_idle() {
    let timer = entry(42);
    let mut tree = tree();
    start(&mut tree, erase(&timer), 10);
    let Fired::Done(token) = tree.open_first().expect("queued").expire() else {
        panic!("no call")
    };
    assert_eq!(token, 42);
    assert!(timer.state().is_idle());
    assert!(tree.is_empty());
}

fn fire_calling(tree: &mut Tree<Numbered>) -> Running<Numbered> {
    let Fired::Call(running) = tree.open_first().expect("queued").expire() else {
        panic!("a call")
    };
    running
}

#[test]
fn a_running_entry_is_never_idle_and_may_be_queued_meanwhile() {
    let timer = Box::pin(Entry::<Numbered, _>::new(0, 0, 0, (), (), Calling(0)));
    let mut tree = tree();
    start(&mut tree, erase(&timer), 10);
    let mut running = fire_calling(&mut tree);
    assert!(timer.state().is_running() && !timer.state().is_queued());
    let count = Cell::new(0);
    assert!(running.call(&mut &count));
    assert_eq!(count.get(), 1);
    assert!(
        tree.open(erase(&timer)).expect("bound").insert(77),
        "started while it runs"
    );
    assert!(timer.state().is_running() && timer.state().is_queued());
    assert_eq!(
        running.restart(&mut tree, 88, |_| ()),
        None,
        "the other start wins"
    );
    assert_eq!(tree.first_key(), Some(77));
    assert!(timer.state().is_queued() && !timer.state().is_running());
    let running = fire_calling(&mut tree);
    assert_eq!(running.restart(&mut tree, 99, |head| *head = 3), Some(true));
    assert_eq!(tree.first_key(), Some(99));
    tree.assert_valid();
    let running = fire_calling(&mut tree);
    running.stop(&mut tree);
    assert!(timer.state().is_idle());
}

#[test]
fn the_member_is_reachable_only_while_idle() {
    let mut timer = Box::pin(Entry::<Numbered, _>::new(0, 0, 0, (), (), Calling(0)));
    let mut tree = tree();
    assert!(timer.as_mut().member_mut().is_some());
    start(&mut tree, erase(&timer), 10);
    assert!(timer.as_mut().member_mut().is_none());
    drop(tree);
    assert!(
        timer.as_mut().member_mut().is_some(),
        "a queue that goes lets its entries go"
    );
}

#[test]
fn guarded_data_open_with_the_owning_queue_only() {
    let timer = entry(5);
    let mut here = tree();
    let mut there = tree();
    here.bind(erase(&timer));
    assert!(timer.as_ref().guarded(&mut there).is_none());
    *timer.as_ref().guarded(&mut here).expect("owner") += 1;
    assert_eq!(timer.as_ref().guarded(&mut here).copied(), Some(6));
}

#[test]
fn guarded_data_open_without_a_queue_only_while_idle() {
    let mut timer = entry(5);
    let mut tree = tree();
    *timer.as_mut().guarded_mut().expect("idle") += 1;
    start(&mut tree, erase(&timer), 10);
    assert!(timer.as_mut().guarded_mut().is_none());
    let Some(Fired::Done(token)) = tree.open_first().map(|slot| slot.expire()) else {
        panic!("no call")
    };
    assert_eq!(token, 6);
    assert_eq!(timer.as_mut().guarded_mut().copied(), Some(6));
}

/// Ends in an abort, so each case runs as a process of its own.
#[cfg(not(miri))]
mod aborts {
    use super::*;
    use std::process::{Command, Stdio};
    use std::string::String;

    const CASE: &str = "TICKLESS_LINK_ABORT_CASE";

    /// Runs `case` in a child, or is that child.
    fn aborts(test: &str, message: &str, case: fn()) {
        if std::env::var_os(CASE).is_some() {
            case();
            return;
        }
        let path = std::format!("tree::tests::aborts::{test}");
        let program = std::env::current_exe().expect("this test");
        // The system does not start a program for another processor: the emulator does.
        let emulator = std::env::var_os("TICKLESS_EMULATOR");
        let mut command = Command::new(emulator.as_deref().unwrap_or(program.as_os_str()));
        command.args(emulator.as_ref().map(|_| &program));
        let output = command
            .args([path.as_str(), "--exact", "--nocapture"])
            .env(CASE, "1")
            .stdout(Stdio::null())
            .output()
            .expect("the test starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "the child must not live on");
        assert!(text.contains(message), "expected {message:?} in:\n{text}");
    }

    #[test]
    fn dropping_a_queued_entry() {
        aborts("dropping_a_queued_entry", "dropped while queued", || {
            let timer = entry(0);
            let mut tree = tree();
            start(&mut tree, erase(&timer), 1);
            drop(timer);
        });
    }

    #[test]
    fn dropping_a_running_entry() {
        aborts(
            "dropping_a_running_entry",
            "dropped while queued or running",
            || {
                let timer = Box::pin(Entry::<Numbered, _>::new(0, 0, 0, (), (), Calling(0)));
                let mut tree = tree();
                start(&mut tree, erase(&timer), 1);
                let _running = fire_calling(&mut tree);
                drop(timer);
            },
        );
    }

    #[test]
    fn losing_an_entry_in_transit() {
        aborts(
            "losing_an_entry_in_transit",
            "lost between two queues",
            || {
                let timer = entry(0);
                let mut tree = tree();
                start(&mut tree, erase(&timer), 1);
                drop(tree.open(erase(&timer)).expect("bound").depart());
            },
        );
    }

    #[test]
    fn finishing_on_a_foreign_queue() {
        aborts("finishing_on_a_foreign_queue", "does not own it", || {
            let timer = Box::pin(Entry::<Numbered, _>::new(0, 0, 0, (), (), Calling(0)));
            let mut here = tree();
            let mut there = tree();
            start(&mut here, erase(&timer), 1);
            fire_calling(&mut here).stop(&mut there);
        });
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(usize, i64, TieOrder),
    Remove(usize),
    Move(usize, i64),
    Reposition(usize, i64),
    ExpireFirst,
}

fn operation(entries: usize) -> impl Strategy<Value = Operation> {
    // Few distinct keys, so that equal ones are frequent.
    let key = prop_oneof![-5_i64..5, -1000_i64..1000];
    prop_oneof![
        4 => (0..entries, key.clone()).prop_map(|(entry, key)| Operation::Insert(entry, key, TieOrder::New)),
        2 => (0..entries, key.clone()).prop_map(|(entry, key)| Operation::Insert(entry, key, TieOrder::Old)),
        2 => (0..entries).prop_map(Operation::Remove),
        2 => (0..entries, key.clone()).prop_map(|(entry, key)| Operation::Move(entry, key)),
        2 => (0..entries, key).prop_map(|(entry, key)| Operation::Reposition(entry, key)),
        1 => Just(Operation::ExpireFirst),
    ]
}

/// The oracle: what is queued, by (key, place among equals).
#[derive(Default)]
struct Oracle {
    queued: BTreeMap<(i64, i64), usize>,
    place: BTreeMap<usize, (i64, i64)>,
    sequence: i64,
}

/// Distance of an old entry before all others with its key.
const AHEAD: i64 = 1 << 40;

impl Oracle {
    fn insert(&mut self, entry: usize, key: i64) {
        self.insert_as(entry, key, TieOrder::New);
    }
    fn insert_as(&mut self, entry: usize, key: i64, turn: TieOrder) {
        self.sequence += 1;
        let ahead = if turn == TieOrder::Old { AHEAD } else { 0 };
        let place = (key, self.sequence - ahead);
        self.queued.insert(place, entry);
        self.place.insert(entry, place);
    }
    fn remove(&mut self, entry: usize) -> bool {
        match self.place.remove(&entry) {
            Some(place) => self.queued.remove(&place).is_some(),
            None => false,
        }
    }
    fn order(&self) -> Vec<u16> {
        self.queued
            .values()
            .map(|&entry| u16::try_from(entry).expect("few"))
            .collect()
    }
    /// Returns true if `entry` keeps its place under `key`, by its neighbours alone.
    fn keeps_place(&self, entry: usize, key: i64) -> bool {
        let Some(place) = self.place.get(&entry) else {
            return false;
        };
        let previous = self.queued.range(..place).next_back();
        let next = self.queued.range(place..).nth(1);
        key == place.0
            || (previous.is_none_or(|(place, _)| key >= place.0)
                && next.is_none_or(|(place, _)| key < place.0))
    }
    /// Gives `entry` another key where it stands: behind an equal previous one.
    fn move_in_place(&mut self, entry: usize, key: i64) {
        if self.place[&entry].0 != key {
            self.remove(entry);
            self.insert(entry, key);
        }
    }
}

const ENTRIES: usize = if cfg!(miri) { 16 } else { 40 };

proptest! {
    #![proptest_config(crate::properties::config(2))]

    /// ORACLE-7.
    #[test]
    fn random_operations_agree_with_the_oracle(
        operations in proptest::collection::vec(operation(ENTRIES), if cfg!(miri) { 40 } else { 300 })
    ) {
        let timers: Vec<_> = (0..u16::try_from(ENTRIES).expect("few")).map(entry).collect();
        let mut tree = tree();
        let mut oracle = Oracle::default();
        for timer in &timers {
            tree.bind(erase(timer));
        }
        for operation in operations {
            match operation {
                Operation::Insert(index, key, turn) => {
                    let entry = erase(&timers[index]);
                    if !entry.state().is_queued() {
                        oracle.insert_as(index, key, turn);
                        let first = match turn {
                            TieOrder::Old => tree.link_before_new(entry, key),
                            TieOrder::New => tree.open(entry).expect("bound").insert(key),
                        };
                        prop_assert_eq!(first, usize::from(oracle.order()[0]) == index);
                    }
                }
                Operation::Remove(index) => {
                    let first = oracle.order().first().map(|&first| usize::from(first));
                    let removed = tree.open(erase(&timers[index])).expect("bound").remove();
                    prop_assert_eq!(removed.is_some(), oracle.remove(index));
                    if let Some(was_first) = removed {
                        prop_assert_eq!(was_first, first == Some(index));
                    }
                }
                Operation::Move(index, key) => {
                    let moved = tree.open(erase(&timers[index])).expect("bound").move_in_place(key);
                    prop_assert_eq!(moved, oracle.keeps_place(index, key));
                    if moved {
                        oracle.move_in_place(index, key);
                    }
                }
                Operation::Reposition(index, key) => {
                    let mut slot = tree.open(erase(&timers[index])).expect("bound");
                    if slot.state().is_queued() {
                        let first = slot.reposition(key);
                        oracle.remove(index);
                        oracle.insert(index, key);
                        prop_assert_eq!(first, usize::from(oracle.order()[0]) == index);
                    }
                }
                Operation::ExpireFirst => {
                    let first = oracle.order().first().copied();
                    let fired = tree.open_first().map(|slot| slot.expire());
                    match fired {
                        None => prop_assert_eq!(first, None),
                        Some(Fired::Done(token)) => {
                            prop_assert_eq!(first.map(u64::from), Some(token));
                            oracle.remove(usize::try_from(token).expect("small"));
                        }
                        Some(Fired::Call(_)) => prop_assert!(false, "silent entries have no call"),
                    }
                }
            }
            tree.assert_valid();
            prop_assert_eq!(order(&tree), oracle.order());
            prop_assert_eq!(tree.len(), oracle.queued.len());
            for (index, timer) in timers.iter().enumerate() {
                prop_assert_eq!(timer.state().is_queued(), oracle.place.contains_key(&index));
            }
        }
    }
}

#[test]
fn what_is_brought_to_the_front_keeps_its_order() {
    let count: u16 = if cfg!(miri) { 30 } else { 500 };
    for every in [1, 2, 7, count + 1] {
        let timers: Vec<_> = (0..count).map(entry).collect();
        let mut tree = tree();
        for (step, timer) in timers.iter().enumerate() {
            let key = i64::try_from(step).expect("small") * 7919 % 50;
            start(&mut tree, erase(timer), key);
        }
        let is_meant = |tag: u16| (tag + 1).is_multiple_of(every);
        let before = order(&tree);
        let (mut expected, others): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|tag| is_meant(*tag));
        let meant = expected.len();
        expected.extend(others);
        let mut bring = || tree.bring_to_front(i64::MIN, |entry| is_meant(entry.tag()));
        assert_eq!([bring(), bring()], [meant, 0]);
        tree.assert_valid();
        assert_eq!(order(&tree), expected);
        assert_eq!(tree.first_key() == Some(i64::MIN), meant > 0);
        while let Some(slot) = tree.open_first() {
            let Fired::Done(_) = slot.expire() else {
                panic!("no call")
            };
        }
    }
}

#[test]
fn large_trees_stay_balanced() {
    let count: u16 = if cfg!(miri) { 60 } else { 5_000 };
    let timers: Vec<_> = (0..count).map(entry).collect();
    let mut tree = tree();
    for (step, timer) in timers.iter().enumerate() {
        let key = i64::try_from(step).expect("small") * 7919 % i64::from(count);
        start(&mut tree, erase(timer), key);
    }
    tree.assert_valid();
    for timer in timers.iter().step_by(3) {
        tree.open(erase(timer)).expect("bound").remove();
    }
    tree.assert_valid();
    while let Some(slot) = tree.open_first() {
        let Fired::Done(_) = slot.expire() else {
            panic!("no call")
        };
    }
    tree.assert_valid();
}
