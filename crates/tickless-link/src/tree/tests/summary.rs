//! Tests of trees that summarise the smallest weight of each subtree, and of entries that move between trees.

use core::cell::Cell;
use core::pin::Pin;
use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::*;

use crate::entry::{Branches, Entry, Expiry, Family, Member, Owner};
use crate::id::Realm;
use crate::tree::{OwnedEntry, Tree};

/// Entries with a weight, and the smallest weight below.
#[derive(Debug)]
struct Weighed;

#[derive(Debug)]
struct Scale {
    weight: u8,
    smallest: Cell<u8>,
}

impl Family for Weighed {
    type Key = i64;
    type Tag = u16;
    type Head = Scale;
    type Shared = ();
    type Branches = Branches<Self>;
    type Token = u16;
    type Context<'a> = ();
    type Answer = ();

    const SUMMARISED: bool = true;

    fn summarise(_: i64, own: &Scale, left: Option<&Scale>, right: Option<&Scale>) -> bool {
        let below = [left, right]
            .into_iter()
            .flatten()
            .map(|scale| scale.smallest.get());
        let smallest = below.fold(own.weight, u8::min);
        own.smallest.replace(smallest) != smallest
    }
}

/// Gives its number away.
struct Silent;

impl Member<Weighed> for Silent {
    type Guarded = u16;
    fn expire(number: &mut u16) -> Expiry<u16> {
        Expiry::Done(*number)
    }
    fn call(&mut self, (): &mut ()) {
        unreachable!("it expires without a call")
    }
}

type Node = Pin<Box<Entry<Weighed, Silent>>>;

fn node(number: u16, weight: u8) -> Node {
    let scale = Scale {
        weight,
        smallest: Cell::new(0),
    };
    Box::pin(Entry::new(0, number, scale, (), number, Silent))
}

fn tree() -> Tree<Weighed> {
    let [key] = Realm::new().keys();
    Tree::new(key)
}

/// The first in the order of the keys that weighs `most` or less.
fn first_of(tree: &Tree<Weighed>, most: u8) -> Option<u16> {
    tree.first_where(
        |scale| scale.smallest.get() <= most,
        |scale| scale.weight <= most,
    )
    .map(|entry| entry.tag())
}

fn first_of_all(tree: &Tree<Weighed>, most: u8) -> Option<u16> {
    let mut found = None;
    tree.for_each(0, |entry, _, scale| {
        found = (scale.weight <= most).then(|| entry.tag());
        found.is_none()
    });
    found
}

/// The weight of the [first](first_of) that is odd, of which the summaries say nothing.
fn first_odd_of(tree: &mut Tree<Weighed>, most: u8) -> Option<u8> {
    let slot = tree.open_first_among(
        |scale| scale.smallest.get() <= most,
        |scale| scale.weight <= most && scale.weight % 2 == 1,
    );
    slot.map(|mut slot| slot.head().weight)
}

fn first_odd_of_all(tree: &Tree<Weighed>, most: u8) -> Option<u8> {
    let mut found = None;
    tree.for_each(0, |_, _, scale| {
        found = (scale.weight <= most && scale.weight % 2 == 1).then_some(scale.weight);
        found.is_none()
    });
    found
}

fn found(tree: &mut Tree<Weighed>, most: u8) -> (Option<u16>, Option<u8>) {
    (first_of(tree, most), first_odd_of(tree, most))
}

fn found_by_all(tree: &Tree<Weighed>, most: u8) -> (Option<u16>, Option<u8>) {
    (first_of_all(tree, most), first_odd_of_all(tree, most))
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(usize, i64),
    Remove(usize),
    Reposition(usize, i64),
    Move(usize, i64),
    Weigh(usize, u8),
    TakeFirst(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let (node, key) = (0..NODES, 0_i64..40);
    prop_oneof![
        4 => (node.clone(), key.clone()).prop_map(|(node, key)| Operation::Insert(node, key)),
        2 => node.clone().prop_map(Operation::Remove),
        2 => (node.clone(), key.clone()).prop_map(|(node, key)| Operation::Reposition(node, key)),
        1 => (node.clone(), key).prop_map(|(node, key)| Operation::Move(node, key)),
        2 => (node, any::<u8>()).prop_map(|(node, weight)| Operation::Weigh(node, weight)),
        1 => any::<u8>().prop_map(Operation::TakeFirst),
    ]
}

const NODES: usize = if cfg!(miri) { 12 } else { 60 };

proptest! {
    #![proptest_config(crate::properties::config(2))]

    /// (g), and the search finds what a look at all entries finds.
    #[test]
    fn a_search_by_summary_finds_what_a_look_at_all_does(
        weights in prop::collection::vec(any::<u8>(), NODES),
        operations in prop::collection::vec(operation(), if cfg!(miri) { 40 } else { 300 }),
    ) {
        let nodes: Vec<_> = (0..).zip(&weights).map(|(number, weight)| node(number, *weight)).collect();
        let mut tree = tree();
        for node in &nodes {
            let adopted = tree.adopt(node.as_ref().erase());
            prop_assert!(adopted.is_some());
        }
        for operation in operations {
            match operation {
                Operation::Insert(number, key) => {
                    let node = nodes[number].as_ref().erase();
                    if !node.state().is_queued() {
                        // One that was taken belongs to no tree.
                        match tree.open(node) {
                            Some(mut slot) => slot.insert(key),
                            None => tree.adopt(node).expect("released").insert(key),
                        };
                    }
                }
                Operation::Remove(number) => {
                    if let Some(mut slot) = tree.open(nodes[number].as_ref().erase()) {
                        slot.remove();
                    }
                }
                Operation::Reposition(number, key) => {
                    if let Some(mut slot) = tree.open(nodes[number].as_ref().erase())
                        && slot.state().is_queued()
                    {
                        slot.reposition(key);
                    }
                }
                Operation::Move(number, key) => {
                    if let Some(mut slot) = tree.open(nodes[number].as_ref().erase()) {
                        slot.move_in_place(key);
                    }
                }
                Operation::Weigh(number, weight) => {
                    if let Some(mut slot) = tree.open(nodes[number].as_ref().erase()) {
                        slot.head().weight = weight;
                        slot.summarise();
                    }
                }
                Operation::TakeFirst(most) => {
                    let expected = first_of_all(&tree, most);
                    let slot = tree.open_first_where(
                        |scale| scale.smallest.get() <= most,
                        |scale| scale.weight <= most,
                    );
                    prop_assert_eq!(slot.map(OwnedEntry::release_expired), expected);
                }
            }
            tree.assert_valid();
            let asked: &[u8] = if cfg!(miri) { &[60] } else { &[0, 15, 60, 127, 255] };
            for &most in asked {
                prop_assert_eq!(found(&mut tree, most), found_by_all(&tree, most));
            }
            let smallest = first_of_all(&tree, 255).map(|_| {
                let mut smallest = 255;
                tree.for_each(0, |_, _, scale| {
                    smallest = smallest.min(scale.weight);
                    true
                });
                smallest
            });
            prop_assert_eq!(tree.summary().map(|scale| scale.smallest.get()), smallest);
        }
    }
}

#[test]
fn an_entry_that_is_let_go_may_be_adopted_by_another_tree() {
    let entry = node(7, 3);
    let (mut here, mut there) = (tree(), tree());
    here.adopt(entry.as_ref().erase())
        .expect("no tree has it")
        .insert(5);
    assert!(
        there.adopt(entry.as_ref().erase()).is_none(),
        "it is in another one"
    );
    assert!(
        here.adopt(entry.as_ref().erase()).is_none(),
        "or in this one"
    );
    let first = here.open_first().expect("queued");
    assert_eq!(first.release_expired(), 7);
    assert_eq!(entry.owner(), Owner::Unbound);
    assert!(entry.state().is_idle());
    assert!(here.open(entry.as_ref().erase()).is_none());
    there
        .adopt(entry.as_ref().erase())
        .expect("let go")
        .insert(1);
    here.assert_valid();
    there.assert_valid();
    assert_eq!((here.len(), there.len()), (0, 1));
}

#[test]
fn an_idle_entry_is_let_go_without_having_been_queued() {
    let entry = node(7, 3);
    let mut here = tree();
    here.adopt(entry.as_ref().erase())
        .expect("no tree has it")
        .let_go();
    let slot = here.adopt(entry.as_ref().erase());
    assert!(slot.is_some());
}

#[test]
fn an_entry_takes_the_place_of_the_only_one() {
    let (first, second) = (node(7, 3), node(8, 4));
    let (mut here, mut there) = (tree(), tree());
    here.adopt(first.as_ref().erase())
        .expect("no tree has it")
        .insert(5);
    let (only, next) = (first.as_ref().erase(), second.as_ref().erase());
    assert!(!here.exchange_only(only, next, 2, |_, _| false));
    assert_eq!(second.owner(), Owner::Unbound, "it was refused");
    assert!(here.exchange_only(only, next, 2, |only, next| {
        (only.weight, next.weight) == (3, 4)
    }));
    here.assert_valid();
    assert_eq!((here.len(), here.first_key()), (1, Some(2)));
    assert_eq!(here.summary().map(|scale| scale.smallest.get()), Some(4));
    assert!(first.state().is_idle());
    assert_eq!(first.owner(), Owner::Unbound);
    there
        .adopt(first.as_ref().erase())
        .expect("let go")
        .insert(1);
    let left = there.open_first().expect("queued").release_expired();
    assert_eq!(left, 7, "it was not expired before");
    here.adopt(first.as_ref().erase())
        .expect("let go")
        .insert(1);
    here.assert_valid();
    assert_eq!(here.len(), 2);
}

#[test]
fn an_entry_takes_no_place_of_one_among_others_or_of_one_elsewhere() {
    let nodes = [node(7, 3), node(8, 4), node(9, 5)];
    let [first, second, third] = nodes.each_ref().map(|node| node.as_ref().erase());
    let (mut here, mut there) = (tree(), tree());
    here.adopt(first).expect("no tree has it").insert(1);
    assert!(!there.exchange_only(first, third, 3, |_, _| true));
    assert!(!here.exchange_only(third, second, 3, |_, _| true));
    assert!(!here.exchange_only(first, first, 3, |_, _| true));
    here.adopt(second).expect("no tree has it").insert(2);
    assert!(!here.exchange_only(first, third, 3, |_, _| true));
    assert_eq!((here.len(), there.len()), (2, 0));
    here.assert_valid();
}

#[test]
#[should_panic(expected = "only an idle entry is let go")]
fn a_queued_entry_is_not_let_go_as_if_it_were_idle() {
    let entry = node(7, 3);
    let mut here = tree();
    here.adopt(entry.as_ref().erase())
        .expect("no tree has it")
        .insert(0);
    here.open(entry.as_ref().erase())
        .expect("bound here")
        .let_go();
}

#[test]
fn a_condition_that_no_entry_meets_ends_the_search() {
    let entry = node(7, 3);
    let mut here = tree();
    assert!(here.summary().is_none());
    here.adopt(entry.as_ref().erase())
        .expect("no tree has it")
        .insert(0);
    assert!(here.first_where(|_| true, |_| false).is_none());
    assert!(here.first_where(|_| false, |_| true).is_none());
}
