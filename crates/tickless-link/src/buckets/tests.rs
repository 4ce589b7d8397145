use core::cell::Cell;
use core::pin::Pin;
use std::boxed::Box;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::entry::{Always, Branches, Entry, Expiry, Member, Owner};
use crate::id::Realm;
use crate::lazy_init::LazyInit;
use crate::sync::{AtomicU32, Ordering};

#[derive(Debug)]
struct Numbered;

/// Counts the visits of an entry; any thread may add to it.
#[derive(Debug, Default)]
struct Visits(AtomicU32);

impl Family for Numbered {
    type Key = i64;
    type Tag = u8;
    type Head = u32;
    type Shared = Visits;
    type Branches = Branches<Self>;
    type Token = u8;
    type Context<'a> = &'a Cell<u32>;
    type Answer = bool;
}

struct Silent;

impl Member<Numbered> for Silent {
    type Guarded = u8;
    fn expire(guarded: &mut u8) -> Expiry<u8> {
        Expiry::Done(*guarded)
    }
    fn call(&mut self, _context: &mut &Cell<u32>) -> bool {
        unreachable!("it expires without a call")
    }
}

/// Expires by returning its number, and declares this outcome as constant.
struct Taken;

impl Member<Numbered> for Taken {
    type Guarded = u8;
    const EXPIRY: Always<u8, u8> = Always::TAKEN;
    fn expire(guarded: &mut u8) -> Expiry<u8> {
        Expiry::Done(core::mem::take(guarded))
    }
    fn call(&mut self, _context: &mut &Cell<u32>) -> bool {
        unreachable!("it expires without a call")
    }
}

struct Calling;

impl Member<Numbered> for Calling {
    type Guarded = ();
    fn expire((): &mut ()) -> Expiry<u8> {
        Expiry::Call
    }
    fn call(&mut self, context: &mut &Cell<u32>) -> bool {
        context.set(context.get() + 1);
        true
    }
}

type SilentEntry = Pin<Box<Entry<Numbered, Silent>>>;

fn silent(number: u8) -> SilentEntry {
    Box::pin(Entry::new(0, number, 0, Visits::default(), number, Silent))
}

fn calling() -> Pin<Box<Entry<Numbered, Calling>>> {
    Box::pin(Entry::new(0, 0, 0, Visits::default(), (), Calling))
}

fn buckets<const LEVELS: usize>() -> BucketArray<Numbered, LEVELS> {
    let [key] = Realm::new().keys();
    BucketArray::new(key)
}

/// Puts an entry, of whatever state, on a list.
fn put<const LEVELS: usize>(
    buckets: &mut BucketArray<Numbered, LEVELS>,
    entry: EntryRef<'_, Numbered>,
    list: usize,
) {
    buckets.bind(entry);
    buckets.open(entry).unwrap().insert(list);
}

/// Returns the numbers of the entries on a list, and removes the entries one by one.
fn drain<const LEVELS: usize>(buckets: &mut BucketArray<Numbered, LEVELS>, list: usize) -> Vec<u8> {
    core::iter::from_fn(|| {
        let mut first = buckets.open_first(list)?;
        let number = first.entry().tag();
        first.remove();
        Some(number)
    })
    .collect()
}

/// Entries of a pending list give their tokens up to the first that is not due, or may need a call, and no more than
/// there are places.
#[test]
fn the_front_of_a_pending_list_is_taken_at_once() {
    let mut buckets = buckets::<2>();
    let entries: Vec<_> = (0..6)
        .map(|number| {
            let visits = Visits(AtomicU32::new(u32::from(number == 4)));
            Box::pin(Entry::new(0, number, 0, visits, number + 10, Taken))
        })
        .collect();
    let called = calling();
    for entry in &entries[..3] {
        put(&mut buckets, entry.as_ref().erase(), 70);
    }
    put(&mut buckets, called.as_ref().erase(), 70);
    for entry in &entries[3..] {
        put(&mut buckets, entry.as_ref().erase(), 70);
    }
    buckets.move_to_pending(70);
    let take = |buckets: &mut BucketArray<_, 2>, room| {
        let mut places = [0; 8];
        // Relaxed: nothing else is reached by it.
        let is_due = |visits: &Visits| visits.0.load(Ordering::Relaxed) == 0;
        let count = buckets.take_pending(1, is_due, &mut places[..room]);
        buckets.assert_valid();
        places[..count].to_vec()
    };
    assert_eq!(take(&mut buckets, 0), []);
    assert_eq!(take(&mut buckets, 2), [10, 11]);
    assert_eq!((buckets.len(), buckets.pending_len()), (5, 5));
    assert!(entries[1].state().is_idle() && entries[2].state().is_queued());
    assert_eq!(take(&mut buckets, 8), [12]);
    assert!(!buckets.first_pending_is_taken(1));
    assert_eq!(take(&mut buckets, 8), [], "the next may need a call");
    buckets.open_first_pending(1).unwrap().remove();
    assert_eq!(take(&mut buckets, 8), [13]);
    assert_eq!(take(&mut buckets, 8), [], "the next is not due");
    buckets.open_first_pending(1).unwrap().remove();
    assert_eq!(take(&mut buckets, 8), [15]);
    assert!(buckets.is_empty() && !buckets.has_pending(1));
    assert_eq!(take(&mut buckets, 8), [], "nothing is pending");
}

#[test]
fn whether_an_entry_is_on_a_list_is_not_claimed_while_one_of_that_row_is_aside() {
    let (here, other) = (silent(0), silent(1));
    let mut buckets = buckets::<2>();
    put(&mut buckets, here.as_ref().erase(), 3);
    put(&mut buckets, other.as_ref().erase(), 9);
    assert!(buckets.open(here.as_ref().erase()).unwrap().is_on(3));
    assert!(!buckets.open(here.as_ref().erase()).unwrap().is_on(4));
    buckets.move_to_pending(9);
    assert!(!buckets.open(here.as_ref().erase()).unwrap().is_on(3));
}

#[test]
#[should_panic(expected = "a level has one pending list at a time")]
fn a_level_has_one_pending_list_at_a_time() {
    let first = silent(0);
    let mut buckets = buckets::<1>();
    put(&mut buckets, first.as_ref().erase(), 3);
    buckets.move_to_pending(3);
    buckets.move_to_pending(4);
}

#[test]
fn a_callback_may_be_queued_again_by_others_and_by_its_end() {
    let mut buckets = buckets::<1>();
    let calls = Cell::new(0);
    let entry = calling();
    put(&mut buckets, entry.as_ref().erase(), 1);
    for (others, list) in [(false, 2), (true, 7)] {
        let current = buckets
            .open(entry.as_ref().erase())
            .unwrap()
            .list()
            .unwrap();
        let (Fired::Call(mut running), BucketState::Vacated(_)) =
            buckets.open_first(current).unwrap().expire(0)
        else {
            panic!("it calls");
        };
        assert!(running.call(&mut &calls));
        assert!(running.state().is_running() && !running.state().is_queued());
        running.shared().0.fetch_add(1, Ordering::Relaxed);
        if others {
            put(&mut buckets, entry.as_ref().erase(), list);
        }
        assert_eq!(running.state().is_queued(), others);
        let queued = running.requeue_in(&mut buckets, 2, |head| *head += 1);
        assert_eq!(queued, !others);
        let mut opened = buckets.open(entry.as_ref().erase()).unwrap();
        assert_eq!(opened.list(), Some(list));
        assert_eq!(*opened.head(), 1, "only by the end that queued it");
        buckets.assert_valid();
    }
    assert_eq!(calls.get(), 2);
    assert_eq!(entry.shared().0.load(Ordering::Relaxed), 2);
    drop(buckets);
    assert!(entry.state().is_idle());
}

#[test]
fn what_is_shut_while_it_runs_is_not_queued_by_its_end() {
    let mut buckets = buckets::<1>();
    let entry = calling();
    put(&mut buckets, entry.as_ref().erase(), 1);
    let (Fired::Call(running), _) = buckets.open_first(1).unwrap().expire(0) else {
        panic!("it calls");
    };
    buckets.open(entry.as_ref().erase()).unwrap().shut();
    assert!(entry.state().is_running() && entry.state().is_shut());
    assert!(!running.requeue_in(&mut buckets, 1, |_| ()));
    assert!(entry.state().is_idle() && entry.state().is_shut());
}

#[test]
fn entries_go_to_a_tree_and_back() {
    let entries: Vec<_> = (0..3).map(silent).collect();
    let [key, other] = Realm::new().keys();
    let mut tree: Tree<Numbered> = Tree::new(key);
    let mut buckets: BucketArray<Numbered, 2> = BucketArray::new(other);
    for (entry, key) in entries.iter().zip([30, 10, 20]) {
        let entry = entry.as_ref().erase();
        tree.bind(entry);
        if key == 10 {
            // Queued or not makes no difference.
            tree.open(entry).unwrap().insert(key);
        }
        assert_eq!(
            tree.open(entry).unwrap().put_in_bucket(&mut buckets, 100),
            key == 10
        );
        assert_eq!(entry.owner(), Owner::Queue(buckets.id()));
        assert!(tree.open(entry).is_none() && entry.state().is_queued());
    }
    buckets.assert_valid();
    assert!(tree.is_empty());
    for (entry, key) in entries.iter().zip([30, 10]) {
        let bucketed = buckets.open(entry.as_ref().erase()).unwrap();
        assert_eq!(
            bucketed.enqueue_in(&mut tree, key, TieOrder::New),
            (BucketState::Others, true)
        );
    }
    let last = buckets.open(entries[2].as_ref().erase()).unwrap();
    assert_eq!(last.return_to(&mut tree), BucketState::Vacated(100));
    assert!(entries[2].state().is_idle());
    tree.assert_valid();
    buckets.assert_valid();
    assert_eq!((tree.len(), buckets.len()), (2, 0));
}

#[test]
fn an_entry_travels_between_shelves() {
    let mut here = buckets::<1>();
    let mut there = buckets::<1>();
    let entry = silent(0);
    put(&mut here, entry.as_ref().erase(), 1);
    let (transit, left) = here.open(entry.as_ref().erase()).unwrap().depart();
    assert_eq!(left, Some(BucketState::Vacated(1)));
    assert!(entry.owner() == Owner::Transit && entry.state().is_queued());
    there.admit(transit, 2, |head| *head = 5);
    let mut arrived = there.open(entry.as_ref().erase()).unwrap();
    assert_eq!((*arrived.head(), arrived.list()), (5, Some(2)));
    assert_eq!(arrived.move_to(3), BucketState::Vacated(2));
    drop(there);
    assert!(entry.state().is_idle());
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, usize),
    Remove(usize),
    Move(usize, usize),
    MoveToFront(usize, usize),
    SetAside(usize),
    TakeAside(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let entry = || 0..12_usize;
    let list = || prop_oneof![Just(0_usize), Just(1), Just(64), Just(65)];
    let step = prop_oneof![
        3 => (entry(), list()).prop_map(|(entry, list)| Step::Put(entry, list)),
        2 => entry().prop_map(Step::Remove),
        1 => (entry(), list()).prop_map(|(entry, list)| Step::Move(entry, list)),
        1 => (entry(), list()).prop_map(|(entry, list)| Step::MoveToFront(entry, list)),
        1 => list().prop_map(Step::SetAside),
        2 => (0..2_usize).prop_map(Step::TakeAside),
    ];
    proptest::collection::vec(step, 1..80)
}

/// Models a bucket array with containers of the standard library.
#[derive(Default)]
struct Oracle {
    lists: std::collections::BTreeMap<usize, VecDeque<usize>>,
    aside: [VecDeque<usize>; 2],
}

impl Oracle {
    fn remove(&mut self, entry: usize) -> Option<BucketState> {
        for (list, entries) in &mut self.lists {
            if let Some(at) = entries.iter().position(|other| *other == entry) {
                entries.remove(at);
                return Some(if entries.is_empty() {
                    BucketState::Vacated(*list)
                } else {
                    BucketState::Others
                });
            }
        }
        for entries in &mut self.aside {
            if let Some(at) = entries.iter().position(|other| *other == entry) {
                entries.remove(at);
                return Some(BucketState::Others);
            }
        }
        None
    }
}

fn play(steps: Vec<Step>) {
    let entries: Vec<_> = (0..12).map(silent).collect();
    let mut buckets = buckets::<2>();
    let mut oracle = Oracle::default();
    for step in steps {
        match step {
            Step::Put(entry, list) if entries[entry].state().is_idle() => {
                put(&mut buckets, entries[entry].as_ref().erase(), list);
                oracle.lists.entry(list).or_default().push_back(entry);
            }
            Step::Remove(entry) => {
                let opened = buckets.open(entries[entry].as_ref().erase());
                let left = opened.and_then(|mut opened| opened.remove());
                assert_eq!(left, oracle.remove(entry));
            }
            Step::Move(entry, list) if !entries[entry].state().is_idle() => {
                let mut opened = buckets.open(entries[entry].as_ref().erase()).unwrap();
                assert_eq!(Some(opened.move_to(list)), oracle.remove(entry));
                oracle.lists.entry(list).or_default().push_back(entry);
            }
            Step::MoveToFront(entry, list) if !entries[entry].state().is_idle() => {
                let mut opened = buckets.open(entries[entry].as_ref().erase()).unwrap();
                assert_eq!(Some(opened.move_to_front(list)), oracle.remove(entry));
                oracle.lists.entry(list).or_default().push_front(entry);
            }
            Step::SetAside(list) if oracle.aside[list / BUCKETS].is_empty() => {
                buckets.move_to_pending(list);
                oracle.aside[list / BUCKETS] = oracle.lists.remove(&list).unwrap_or_default();
            }
            Step::TakeAside(row) => {
                let taken = buckets.open_first_pending(row).map(|mut opened| {
                    let number = opened.entry().tag();
                    assert_eq!(opened.remove(), Some(BucketState::Others));
                    usize::from(number)
                });
                assert_eq!(taken, oracle.aside[row].pop_front());
            }
            Step::Put(..) | Step::Move(..) | Step::MoveToFront(..) | Step::SetAside(_) => {}
        }
        buckets.assert_valid();
    }
    for (list, entries) in oracle.lists {
        let drained: Vec<usize> = drain(&mut buckets, list)
            .into_iter()
            .map(usize::from)
            .collect();
        assert_eq!(drained, Vec::from(entries));
    }
    drop(buckets);
    assert!(entries.iter().all(|entry| entry.state().is_idle()));
}

proptest! {
    #![proptest_config(crate::properties::config(2))]

    #[test]
    fn a_bucket_array_behaves_like_lists(steps in steps()) {
        play(steps);
    }
}

#[test]
fn an_entry_is_quiet_while_it_is_idle_or_queued_and_nothing_else() {
    let mut buckets = buckets::<2>();
    let entry = calling();
    let entry = entry.as_ref().erase();
    buckets.bind(entry);
    let Some(Quiet::Idle(idle)) = buckets.open(entry).unwrap().quiet() else {
        panic!("it is idle");
    };
    idle.insert(3);
    let others = [silent(1), silent(2)];
    for other in &others {
        put(&mut buckets, other.as_ref().erase(), 70);
    }
    let Some(Quiet::Queued(queued)) = buckets.open(entry).unwrap().quiet() else {
        panic!("it is queued");
    };
    assert!(queued.is_on(3) && !queued.is_on(70) && queued.list() == 3);
    assert_eq!(queued.move_to(70), BucketState::Vacated(3));
    buckets.assert_valid();
    assert!(buckets.open(entry).unwrap().is_on(70));
    buckets.move_to_pending(70);
    assert!(buckets.has_pending(1) && !buckets.has_pending(0));
    let Some(Quiet::Queued(queued)) = buckets.open(entry).unwrap().quiet() else {
        panic!("it is queued still");
    };
    assert!(!queued.is_on(70), "its list was taken out");
    assert_eq!(queued.remove(), BucketState::Others);
    assert!(entry.state().is_idle());
    buckets.assert_valid();
    assert_eq!(buckets.len(), 2);
    put(&mut buckets, entry, 3);
    let (fired, _) = buckets.open(entry).unwrap().expire(0);
    let Fired::Call(running) = fired else {
        panic!("it has a callback");
    };
    assert!(buckets.open(entry).unwrap().quiet().is_none(), "it runs");
    put(&mut buckets, entry, 4);
    assert!(buckets.open(entry).unwrap().quiet().is_none(), "both");
    running.stop(&mut buckets);
    buckets.open(entry).unwrap().remove();
    buckets.open(entry).unwrap().shut();
    assert!(
        buckets.open(entry).unwrap().quiet().is_none(),
        "it was shut down"
    );
    while let Some(mut first) = buckets.open_first_pending(1) {
        _ = first.remove();
    }
}

/// Owns something that has to be dropped.
struct Owning;

impl Family for Owning {
    type Key = ();
    type Tag = ();
    type Head = ();
    type Shared = ();
    type Branches = ();
    type Token = ();
    type Context<'a> = ();
    type Answer = ();
}

impl Member<Owning> for Owning {
    type Guarded = Shared;
    fn expire(_guarded: &mut Shared) -> Expiry<()> {
        unreachable!("it is taken out")
    }
    fn call(&mut self, (): &mut ()) {
        unreachable!("it is taken out")
    }
}

/// `Send` by the word of the test, which has one thread.
struct Shared(Rc<u8>);
// SAFETY: no test here sends it.
unsafe impl Send for Shared {}

crate::stages! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Stage {
        unmade {
            Never,
            Gone,
        }
        made {
            Made,
        }
    }
}

type Ending = LazyInit<(), Stage, Entry<Owning, Owning>>;

fn owning<'l>(late: Pin<&'l mut Ending>, owned: &Rc<u8>) -> Pin<&'l mut Entry<Owning, Owning>> {
    let guarded = Shared(Rc::clone(owned));
    let made = || Entry::new((), (), (), (), guarded, Owning);
    late.make(Stage::Made, made).1
}

/// Unlinks an entry from each place of a list; its neighbours stay linked.
#[test]
fn an_entry_that_ends_leaves_its_list_and_what_it_owns_is_given_back_once() {
    for ending in 0..3 {
        let [key] = Realm::new().keys();
        let mut buckets = BucketArray::<Owning, 2>::new(key);
        let owned = Rc::new(7);
        {
            let mut lates =
                Vec::from_iter((0..3).map(|_| Box::pin(LazyInit::new((), Stage::Never))));
            for late in &mut lates {
                let entry = owning(late.as_mut(), &owned);
                assert!(buckets.insert_unbound(entry, 70));
            }
            assert_eq!(Rc::strong_count(&owned), 4);
            let made = lates[ending].as_mut().made().expect("it is made");
            let taken = made.end(Stage::Gone, |living| buckets.end(living));
            let (Shared(token), left) = taken.expect("it is queued");
            assert_eq!((*token, left), (7, BucketState::Others));
            drop(token);
            // Not dropped twice, neither now nor with the rest.
            assert_eq!(Rc::strong_count(&owned), 3);
            assert_eq!((lates[ending].stage(), buckets.len()), (Stage::Gone, 2));
            buckets.assert_valid();
            for (number, late) in lates.iter_mut().enumerate() {
                if let Some(made) = late.as_mut().made() {
                    let taken = made.end(Stage::Gone, |living| buckets.end(living));
                    let last = number == 2 || (number == 1 && ending == 2);
                    let left = taken.expect("it is queued").1;
                    assert_eq!(left == BucketState::Vacated(70), last);
                }
            }
            assert!(buckets.is_empty());
        }
        assert_eq!(Rc::strong_count(&owned), 1);
    }
}

#[test]
fn an_entry_that_does_not_wait_there_does_not_end() {
    let [key, other] = Realm::new().keys();
    let (mut buckets, mut others) = (
        BucketArray::<Owning, 1>::new(key),
        BucketArray::<Owning, 1>::new(other),
    );
    let owned = Rc::new(7);
    {
        let mut late = pin!(Ending::new((), Stage::Never));
        assert!(late.as_mut().made().is_none());
        let entry = owning(late.as_mut(), &owned);
        assert!(buckets.insert_unbound(entry, 5));
        let elsewhere = late.as_mut().made().expect("it is made");
        let refused = elsewhere.end(Stage::Gone, |living| others.end(living));
        let made = refused.err().expect("it belongs to the first");
        assert_eq!((made.stage(), buckets.len()), (Stage::Made, 1));
        let entry = late.as_ref().value().expect("it is made").erase();
        let _left = buckets.open(entry).expect("it is there").remove();
        let idle = late.as_mut().made().expect("it is made");
        assert!(idle.end(Stage::Gone, |living| buckets.end(living)).is_err());
        // Dropped as any other value.
        assert_eq!(Rc::strong_count(&owned), 2);
        let idle = late.as_mut().made().expect("it is made");
        let dropped = idle.end(Stage::Gone, |living| Ok(((), living.drop_in_place())));
        assert!(dropped.is_ok() && late.stage() == Stage::Gone);
        assert_eq!(Rc::strong_count(&owned), 1);
    }
    assert_eq!(Rc::strong_count(&owned), 1);
}
