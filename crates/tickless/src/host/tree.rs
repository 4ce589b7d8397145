//! The hierarchies through which threads' timers are found when they are due, and where their nodes and groups are
//! kept.
//!
//! There are two trees, because they promise different things:
//!
//! - *Guests* are the threads that do not run their own timers: always idle, they publish the time of their first timer
//!   and are served. The background driver is the one member that sleeps until the first of all these times, exactly.
//!   So who arms a timer touches his own node and its group, and only the first timer of the group touches what is
//!   above; and the driver finds what is due without looking at every thread.
//! - *Workers* look after each other's coarse timers. One that sleeps hands over when its first one is due; one that is
//!   awake looks once a tick; the last one to go to sleep promises to wake up for all. An isolated worker is not in the
//!   tree: it neither pulls nor is pulled. Exact timers stay with their worker.
//!
//! # Fork
//!
//! The child of a fork has one thread. If that is not the driver, the driver may have been in the middle of anything in
//! the tree of guests, so the child starts with a new one. If it is, nobody else was: guests publish with their base
//! locked, and come and go with the registry of seats locked, and the forking thread holds all of these. Workers' trees
//! are always new in a child.

use std::sync::OnceLock;

use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, Handover, Hierarchy, Layout, Leaving, NumaNode, Presence, Refused,
    Sites,
};
use tickless_core::hrtimer::Frozen;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;
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

/// A tree.
pub(crate) type Tree = Hierarchy<Table, WIDTH>;

/// What a tree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Guests,
    Workers,
}

/// So many nodes as are made at a time.
type Chunk = Box<[CpuNode<Lock>]>;

/// Where the nodes and groups lie.
#[derive(Debug)]
pub(crate) struct Table {
    purpose: Purpose,
    nodes: Box<[OnceLock<Chunk>]>,
    groups: Box<[OnceLock<Box<Group<Lock, WIDTH>>>]>,
}

impl Table {
    fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
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

    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32) {
        let fired = match self.purpose {
            Purpose::Guests => seat::seat(cpu).map_or(0, |seat| background::look_after(seat).fired),
            Purpose::Workers => coarse::pull(cpu, now, *budget),
        };
        *budget = budget.saturating_sub(fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        let seat = seat::seat(cpu).expect("who has a node has a seat");
        let now = timers().platform().clock.exact();
        if !coarse::first_due(seat).is_forever() {
            // What is known of the first coarse timer may be out of date: that would cost a look for nothing.
            let _settled = timers().wheel_next(cpu, coarse::tick_of(now));
        }
        let held = coarse::freeze(seat);
        let global = match self.purpose {
            Purpose::Guests => coarse::published(seat),
            Purpose::Workers => wake_times(seat.wheel_next_due(), coarse::tick_time(now)).global,
        };
        (held, global)
    }

    fn activate(&self, cpu: CpuId) {
        match self.purpose {
            // The driver is the only one.
            Purpose::Guests => background::wake(),
            Purpose::Workers => {
                if let Some(seat) = seat::seat(cpu) {
                    seat.local().parker.unpark();
                }
            }
        }
    }
}

/// The trees of a process, and those that took their place in the child of a fork.
#[derive(Debug)]
struct Generation {
    guests: Tree,
    workers: Tree,
    /// The tree of guests of an earlier generation is the one in use: its driver forked.
    guests_of: Option<&'static Tree>,
    next: OnceLock<Box<Self>>,
}

impl Generation {
    fn new(guests_of: Option<&'static Tree>, handover: Handover) -> Self {
        let threads = u32::try_from(SEATS_MAX).unwrap_or(u32::MAX);
        // Where threads run is the scheduler's business, so all count as one node's.
        let layout = Layout::new(threads, 1, WIDTH);
        let tree = |purpose| Hierarchy::new(Table::new(purpose), layout, handover);
        Self {
            guests: tree(Purpose::Guests),
            workers: tree(Purpose::Workers),
            guests_of,
            next: OnceLock::new(),
        }
    }
}

/// The first generation.
static FIRST: OnceLock<Generation> = OnceLock::new();

fn current() -> &'static Generation {
    let mut generation = FIRST.get_or_init(|| Generation::new(None, Handover::default()));
    while let Some(next) = generation.next.get() {
        generation = next;
    }
    generation
}

/// The tree of guests.
pub(crate) fn guests() -> &'static Tree {
    let current = current();
    current.guests_of.unwrap_or(&current.guests)
}

/// The tree of workers.
pub(crate) fn workers() -> &'static Tree {
    &current().workers
}

/// Says who looks after sleeping workers when the one who did goes to sleep.
pub(crate) fn set_handover(handover: Handover) {
    workers().set_handover(handover);
}

/// Starts anew: in the child of a fork.
pub(super) fn forget(driver_survives: bool) {
    if FIRST.get().is_some() {
        let guests_of = driver_survives.then(guests);
        let new = Generation::new(guests_of, workers().handover());
        let _new = current().next.set(Box::new(new));
    }
}

/// Makes the thread on `seat` a guest.
pub(crate) fn welcome(seat: &Seat) {
    join(guests(), seat.cpu(), Presence::Guest);
}

/// Makes the background driver a member, which sleeps.
pub(super) fn seat_the_driver() {
    join(guests(), CpuId(0), Presence::Idle);
}

/// Makes the worker on `seat` one that looks after others, and whom others look after.
pub(crate) fn enlist(seat: &Seat) {
    join(workers(), seat.cpu(), Presence::Awake);
}

fn join(tree: &Tree, cpu: CpuId, presence: Presence) {
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

/// The thread on `seat` is no guest from here on.
pub(crate) fn farewell(seat: &Seat) {
    let _registry = seat::registry();
    let left = guests().clear_available(seat.cpu(), Leaving::Offline);
    debug_assert!(left.is_ok(), "who leaves has come: {left:?}");
}

/// Whether the worker on `seat` looks after others, and others after it.
pub(crate) fn takes_part(seat: &Seat) -> bool {
    let node = workers().sites().node(seat.cpu());
    node.is_some_and(CpuNode::is_available)
}

/// The worker on `seat` looks after nobody else from here on, and nobody after it.
///
/// # Errors
///
/// [`Refused::LastAvailable`] if it leaves for isolation and is the last one.
pub(crate) fn retire(seat: &Seat, why: Leaving) -> Result<(), Refused> {
    let _registry = seat::registry();
    workers().clear_available(seat.cpu(), why)
}
