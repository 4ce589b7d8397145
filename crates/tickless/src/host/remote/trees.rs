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

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use tickless_core::hierarchy::{
    CpuNode, Group, GroupId, Handover, Hierarchy, Leaving, NumaNode, Presence, Refused, Sites,
};
use tickless_core::hrtimer::Frozen;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;
use tickless_link::bias::BiasedLock;

use super::expiry_thread as background;
use crate::host::os::Linux;
use crate::host::thread::{self as seat, SEATS_MAX, Seat};
use crate::host::{Host, coarse, device, numa, timers};

/// Children of a group.
pub(crate) const WIDTH: usize = 8;
/// Nodes are made so many at a time.
const CHUNK: usize = 8;
/// Entries of a [`Sparse`] table that are made at a time.
const PAGE: usize = 128;
/// Groups of a full tree: eight nodes in each of the lowest level, eight groups in each of the others, and nearly as
/// many again for what a tree that grows leaves half empty, for each NUMA node and on the way up.
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
    nodes: Sparse<Chunk>,
    groups: Sparse<Box<Group<Lock, WIDTH>>>,
}

/// A table of which as much exists as is used: a process that forks generation after generation has a tree of each.
#[derive(Debug)]
struct Sparse<T> {
    pages: Box<[OnceLock<Page<T>>]>,
}

type Page<T> = Box<[OnceLock<T>]>;

impl<T> Sparse<T> {
    fn new(length: usize) -> Self {
        Self {
            pages: empty(length.div_ceil(PAGE)),
        }
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.pages
            .get(index / PAGE)?
            .get()?
            .get(index % PAGE)?
            .get()
    }

    /// The place for an entry; `None` beyond the end.
    fn place(&self, index: usize) -> Option<&OnceLock<T>> {
        let page = self.pages.get(index / PAGE)?;
        page.get_or_init(|| empty(PAGE)).get(index % PAGE)
    }
}

impl Table {
    fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            nodes: Sparse::new(SEATS_MAX / CHUNK),
            groups: Sparse::new(GROUPS_MAX),
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
        let chunk = self.nodes.place(number / CHUNK)?.get_or_init(|| {
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
        self.groups
            .get(id.0 as usize)
            .expect("groups are placed before they are named")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= GROUPS_MAX
    }

    fn place(&self, id: GroupId, group: Group<Lock, WIDTH>) {
        let place = self.groups.place(id.0 as usize);
        let placed = place.is_some_and(|place| place.set(Box::new(group)).is_ok());
        debug_assert!(placed, "a group is placed once, where there is room");
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
            Purpose::Guests => device::note_set(seat),
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
    guests: OnceLock<Tree>,
    /// Made with the first worker.
    workers: OnceLock<Tree>,
    handover: Handover,
    /// The tree of guests of an earlier generation is the one in use: its driver forked.
    guests_of: Option<&'static Tree>,
    next: OnceLock<Box<Self>>,
}

impl Generation {
    fn new(guests_of: Option<&'static Tree>, handover: Handover) -> Self {
        Self {
            guests: OnceLock::new(),
            workers: OnceLock::new(),
            handover,
            guests_of,
            next: OnceLock::new(),
        }
    }

    fn guests(&'static self) -> &'static Tree {
        let own = || self.guests.get_or_init(|| self.tree(Purpose::Guests));
        self.guests_of.unwrap_or_else(own)
    }

    fn workers(&self) -> &Tree {
        self.workers.get_or_init(|| self.tree(Purpose::Workers))
    }

    fn tree(&self, purpose: Purpose) -> Tree {
        Hierarchy::new(Table::new(purpose), numa::nodes().layout(), self.handover)
    }
}

/// The first generation.
static FIRST: OnceLock<Generation> = OnceLock::new();

thread_local! {
    /// The generation of this process, as this thread found it.
    static FOUND: Cell<Option<&'static Generation>> = const { Cell::new(None) };
}

#[inline]
fn current() -> &'static Generation {
    FOUND.get().unwrap_or_else(find)
}

#[cold]
fn find() -> &'static Generation {
    let mut generation = FIRST.get_or_init(|| Generation::new(None, Handover::default()));
    while let Some(next) = generation.next.get() {
        generation = next;
    }
    FOUND.set(Some(generation));
    generation
}

/// The tree of guests.
#[inline]
pub(crate) fn guests() -> &'static Tree {
    current().guests()
}

/// The tree of workers.
#[inline]
pub(crate) fn workers() -> &'static Tree {
    current().workers()
}

/// Says who looks after sleeping workers when the one who did goes to sleep.
pub(crate) fn set_handover(handover: Handover) {
    workers().set_handover(handover);
}

/// Starts anew: in the child of a fork.
pub(crate) fn forget(driver_survives: bool) {
    if FIRST.get().is_some() {
        let old = current();
        let guests_of = driver_survives.then(guests);
        // Not asked of a tree that another thread may have been making.
        let handover = old.workers.get().map_or(old.handover, Tree::handover);
        let _new = old.next.set(Box::new(Generation::new(guests_of, handover)));
        FOUND.set(None);
    }
}

/// Makes the thread on `seat` a guest.
pub(crate) fn welcome(seat: &Seat) {
    join(guests(), seat.cpu(), Presence::Guest);
}

/// Makes the background driver a member, which sleeps.
pub(crate) fn seat_the_driver() {
    join(guests(), CpuId(0), Presence::Idle);
}

/// Makes the worker on `seat` one that looks after others, and whom others look after.
pub(crate) fn enlist(seat: &Seat) {
    join(workers(), seat.cpu(), Presence::Awake);
}

fn join(tree: &Tree, cpu: CpuId, presence: Presence) {
    // Nobody forks meanwhile.
    let _registry = seat::registry();
    // Relaxed: written before the seat was given to the thread that joins.
    let node = seat::seat(cpu).map_or(0, |seat| seat.local().node.load(Ordering::Relaxed));
    let joined = tree
        .prepare(cpu, NumaNode(node))
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

#[cfg(test)]
mod tests {
    use tickless_core::hierarchy::Child;

    use super::*;
    use crate::host::numa::tests::nodes_of;

    /// A tree of threads on a machine with four nodes of four CPUs.
    fn tree() -> Tree {
        let layout = nodes_of("two-sockets").layout();
        Hierarchy::new(Table::new(Purpose::Workers), layout, Handover::default())
    }

    #[test]
    fn threads_of_different_nodes_share_no_group_below_the_cross_node_level() {
        let tree = tree();
        for cpu in 0..100 {
            tree.prepare(CpuId(cpu), NumaNode(cpu % 4))
                .expect("there is room");
        }
        for cpu in 0..100 {
            let mut next = tree.sites().node(CpuId(cpu)).and_then(CpuNode::leaf);
            while let Some(id) = next {
                let group = tree.sites().group(id);
                let crosses = group.level() >= tree.layout().cross_node_level();
                assert!(crosses || group.node() == NumaNode(cpu % 4), "CPU {cpu}");
                next = group.parent();
            }
        }
        let root = tree.root().expect("there is one");
        assert!(matches!(tree.children(root).next(), Some(Child::Group(_))));
    }

    #[test]
    fn a_thread_joins_on_the_node_of_its_seat() {
        let visitor = std::thread::spawn(|| {
            let own = seat::with_thread(seat::Thread::enter).expect("there are seats enough");
            let before = own.local().node.swap(3, Ordering::Relaxed);
            let tree = tree();
            join(&tree, own.cpu(), Presence::Awake);
            own.local().node.store(before, Ordering::Relaxed);
            let leaf = tree.sites().node(own.cpu()).and_then(CpuNode::leaf);
            tree.sites().group(leaf.expect("it joined")).node()
        });
        assert_eq!(visitor.join().expect("no panic"), NumaNode(3));
    }

    /// One thread for each CPU: four groups and a root.
    #[test]
    fn with_a_thread_for_each_cpu_the_tree_is_the_one_that_is_drawn() {
        let tree = tree();
        for cpu in 0..16 {
            tree.prepare(CpuId(cpu), NumaNode(cpu / 4))
                .expect("there is room");
        }
        assert_eq!((tree.groups(), tree.height()), (5, 2));
    }

    /// A machine can have threads on one node only.
    #[test]
    fn threads_of_one_node_fill_as_many_groups_as_they_need() {
        let tree = tree();
        for cpu in 0..600 {
            tree.prepare(CpuId(cpu), NumaNode(3))
                .expect("there is room");
        }
        assert!(tree.groups() < 600 / 8 + 600 / 64 + 10, "{}", tree.groups());
    }
}
