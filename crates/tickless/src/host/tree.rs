//! The hierarchy through which threads' timers are found when they are due, and where its nodes and groups are kept.
//!
//! A thread that does not run its own timers is a *guest* of the tree: always idle, it publishes the time of its first
//! timer and is served. The background driver is the one member that sleeps until the first of all these times. So who
//! arms a timer touches his own node and its group, and only the first timer of the group touches what is above; and
//! the driver finds what is due without looking at every thread.
//!
//! # Fork
//!
//! The child of a fork has one thread. If that is not the driver, the driver may have been in the middle of anything in
//! the tree, so the child starts with a new one. If it is, nobody else was: guests publish with their base locked, and
//! come and go with the registry of seats locked, and the forking thread holds all of these.

use std::sync::OnceLock;

use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, Handover, Hierarchy, Layout, Leaving, NumaNode, Presence, Sites,
};
use tickless_core::hrtimer::Frozen;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_link::bias::BiasedLock;

use super::os::Linux;
use super::seat::{self, SEATS_MAX, Seat};
use super::{Host, background, coarse, timers};

/// Children of a group.
const WIDTH: usize = 8;
/// Nodes and groups are made so many at a time.
const CHUNK: usize = 64;
/// Groups of a full tree: eight nodes in each of the lowest level, eight groups in each of the others, and as many
/// again on the way up for what a tree that grows leaves half empty.
const GROUPS_MAX: usize = SEATS_MAX / 4;

type Lock = BiasedLock<Linux>;

/// The tree of guests.
pub(crate) type Guests = Hierarchy<Table, WIDTH>;

/// Where the nodes and groups lie.
#[derive(Debug)]
pub(crate) struct Table {
    nodes: Box<[OnceLock<Box<[CpuNode<Lock>]>>]>,
    groups: Box<[OnceLock<Box<Group<Lock, WIDTH>>>]>,
}

impl Table {
    fn new() -> Self {
        Self {
            nodes: empty(SEATS_MAX / CHUNK),
            groups: empty(GROUPS_MAX),
        }
    }
}

fn empty<T>(length: usize) -> Box<[OnceLock<T>]> {
    (0..length).map(|_| OnceLock::new()).collect()
}

impl Sites<WIDTH> for Table {
    type Lock = Lock;
    type Held<'a> = Frozen<'a, Host>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<Lock>> {
        let number = cpu.0 as usize;
        let chunk = self.nodes.get(number / CHUNK)?.get_or_init(|| {
            let first = number - number % CHUNK;
            (first..first + CHUNK)
                .filter_map(|number| u32::try_from(number).ok())
                .map(|number| CpuNode::new(CpuId(number)))
                .collect()
        });
        chunk.get(number % CHUNK)
    }

    fn cpus(&self) -> u32 {
        u32::try_from(seat::seats().count()).unwrap_or(u32::MAX)
    }

    fn group(&self, id: GroupId) -> &Group<Lock, WIDTH> {
        self.groups[id.0 as usize]
            .get()
            .expect("groups are placed before they are named")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= GROUPS_MAX
    }

    fn place(&self, id: GroupId, group: Group<Lock, WIDTH>) {
        let placed = self.groups[id.0 as usize].set(Box::new(group));
        debug_assert!(placed.is_ok(), "a group is placed once");
    }

    fn expire_global(&self, cpu: CpuId, _now: Instant, budget: &mut u32) {
        if let Some(seat) = seat::seat(cpu) {
            *budget = budget.saturating_sub(background::look_after(seat).fired);
        }
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        let seat = seat::seat(cpu).expect("who has a node has a seat");
        if !coarse::first_due(seat).is_forever() {
            // What is known of the first coarse timer may be out of date: that would cost a look for nothing.
            let _settled = timers().wheel_next(cpu, coarse::now());
        }
        let held = coarse::freeze(seat);
        (held, coarse::published(seat))
    }

    fn activate(&self, _cpu: CpuId) {
        // The driver is the only one.
        background::wake();
    }
}

/// A tree, and the one that took its place in the child of a fork.
#[derive(Debug)]
struct Generation {
    tree: Guests,
    next: OnceLock<Box<Self>>,
}

impl Generation {
    fn new() -> Self {
        let threads = u32::try_from(SEATS_MAX).unwrap_or(u32::MAX);
        // Where threads run is the scheduler's business, so all count as one node's.
        let layout = Layout::new(threads, 1, WIDTH);
        Self {
            tree: Hierarchy::new(Table::new(), layout, Handover::default()),
            next: OnceLock::new(),
        }
    }
}

/// The first generation.
static FIRST: OnceLock<Generation> = OnceLock::new();

/// The tree of guests.
pub(crate) fn guests() -> &'static Guests {
    let mut generation = FIRST.get_or_init(Generation::new);
    while let Some(next) = generation.next.get() {
        generation = next;
    }
    &generation.tree
}

/// Starts anew: in the child of a fork whose driver is gone.
pub(super) fn forget() {
    let Some(mut generation) = FIRST.get() else {
        return;
    };
    while let Some(next) = generation.next.get() {
        generation = next;
    }
    let _new = generation.next.set(Box::new(Generation::new()));
}

/// Makes the thread on `seat` a guest.
pub(crate) fn welcome(seat: &Seat) {
    join(seat.cpu(), Presence::Guest);
}

/// Makes the background driver a member, which sleeps.
pub(super) fn seat_the_driver() {
    join(CpuId(0), Presence::Idle);
}

fn join(cpu: CpuId, presence: Presence) {
    let tree = guests();
    // Nobody forks meanwhile.
    let _registry = seat::registry();
    let joined = tree
        .prepare(cpu, NumaNode(0))
        .map(|()| tree.set_available(cpu, presence));
    debug_assert!(
        matches!(joined, Ok(Ok(()))),
        "the tables have room for as many threads as there are seats: {joined:?}"
    );
}

/// The thread on `seat` looks after itself from here on.
pub(crate) fn farewell(seat: &Seat) {
    let _registry = seat::registry();
    let left = guests().clear_available(seat.cpu(), Leaving::Offline);
    debug_assert!(left.is_ok(), "who leaves has come: {left:?}");
}
