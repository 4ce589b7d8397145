//! Loom cases for entries that one queue releases and another one adopts.

use core::pin::Pin;
use std::boxed::Box;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{OwnedEntry, Tree};
use crate::entry::{Branches, Entry, Expiry, Family, Member, Owner};
use crate::id::Realm;

enum Plain {}

impl Family for Plain {
    type Key = i64;
    type Tag = ();
    type Head = u32;
    type Shared = ();
    type Branches = Branches<Self>;
    type Token = u32;
    type Context<'a> = ();
    type Answer = ();
}

struct Silent;

impl Member<Plain> for Silent {
    type Guarded = u32;
    fn expire(guarded: &mut u32) -> Expiry<u32> {
        *guarded += 1;
        Expiry::Done(*guarded)
    }
    fn call(&mut self, (): &mut ()) {
        unreachable!("it expires without a call")
    }
}

type Shared = Arc<(
    Mutex<Tree<Plain>>,
    Mutex<Tree<Plain>>,
    Pin<Box<Entry<Plain, Silent>>>,
)>;

fn world() -> Shared {
    let [here, there] = Realm::new().keys();
    let entry = Box::pin(Entry::new(0, (), 0, (), 0, Silent));
    Arc::new((
        Mutex::new(Tree::new(here)),
        Mutex::new(Tree::new(there)),
        entry,
    ))
}

fn queue(tree: &mut Tree<Plain>, entry: Pin<&Entry<Plain, Silent>>, key: i64) -> bool {
    tree.adopt(entry.erase()).is_some_and(|mut slot| {
        *slot.head() += 1;
        slot.insert(key)
    })
}

fn check(case: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(case);
}

/// Two queues race: one releases an entry while another adopts it. Whichever is first, the entry is in one queue or in
/// none, and no two threads access the entry's cells at once.
#[test]
fn a_queue_lets_go_of_an_entry_against_one_that_adopts_it() {
    check(|| {
        let world = world();
        assert!(queue(&mut world.0.lock().unwrap(), world.2.as_ref(), 1));
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || queue(&mut world.1.lock().unwrap(), world.2.as_ref(), 2))
        };
        let taken = world
            .0
            .lock()
            .unwrap()
            .open_first()
            .map(OwnedEntry::release_expired);
        assert_eq!(taken, Some(1));
        let adopted = other.join().unwrap();
        assert_eq!(adopted, world.2.state().is_queued());
        let mut there = world.1.lock().unwrap();
        assert_eq!(
            there.open_first().map(OwnedEntry::release_expired),
            adopted.then_some(2)
        );
    });
}

/// Two queues try to adopt an entry that a third one releases: at most one of them gets the entry.
#[test]
fn two_queues_adopt_an_entry_that_is_let_go() {
    check(|| {
        let world = world();
        assert!(queue(&mut world.0.lock().unwrap(), world.2.as_ref(), 1));
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || queue(&mut world.1.lock().unwrap(), world.2.as_ref(), 2))
        };
        let mut here = world.0.lock().unwrap();
        assert_eq!(here.open_first().map(OwnedEntry::release_expired), Some(1));
        let mine = queue(&mut here, world.2.as_ref(), 3);
        drop(here);
        let theirs = other.join().unwrap();
        assert!(!(mine && theirs));
        let mut here = world.0.lock().unwrap();
        let mut there = world.1.lock().unwrap();
        assert_eq!(
            here.len() + there.len(),
            usize::from(mine) + usize::from(theirs)
        );
        for tree in [&mut *here, &mut *there] {
            tree.open_first().map(OwnedEntry::release_expired);
        }
    });
}

/// An entry is freed as soon as a thread reads that it is idle: the release was the last access to the entry.
#[test]
fn an_entry_is_let_go_against_its_owner_that_frees_it() {
    check(|| {
        let [key] = Realm::new().keys();
        let mut tree = Tree::<Plain>::new(key);
        let entry: Pin<Box<Entry<Plain, Silent>>> = Box::pin(Entry::new(0, (), 0, (), 0, Silent));
        assert!(queue(&mut tree, entry.as_ref(), 1));
        let owner = thread::spawn(move || {
            if entry.state().is_idle() {
                assert_eq!(entry.owner(), Owner::Unbound, "the state is written last");
                drop(entry);
            } else {
                // Not idle yet: a leak ends the case without the process.
                core::mem::forget(entry);
            }
        });
        assert_eq!(tree.open_first().map(OwnedEntry::release_expired), Some(1));
        owner.join().unwrap();
    });
}
