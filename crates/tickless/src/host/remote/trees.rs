//! The [migration hierarchies](tickless_core::hierarchy), in which threads find due timers of others, and the storage
//! of their nodes and groups.
//!
//! There are two trees, because they have different guarantees, and one more tree for each runtime with a reactor:
//!
//! - The tree of *foreign threads*, which do not fire their own timers. In this tree they are always idle, publish the
//!   time of their first timer, and are served. The expiry thread is the one member that serves them: it sleeps exactly
//!   until the first of all these times. So a thread that starts a timer accesses its own node and its group, and only
//!   the first timer of the group changes the groups above. And the expiry thread finds the due timers without checking
//!   every thread.
//! - The tree of *workers*, which fire each other's coarse timers. A worker that goes to sleep publishes when its first
//!   coarse timer is due. A worker that is awake checks the tree once a tick. The last worker that goes to sleep
//!   promises to wake up for all. An isolated worker is not in the tree: it fires no timers of others, and no other
//!   worker fires its timers. Exact timers stay with their worker.
//! - The tree of a runtime with a [reactor](super::reactors). It contains the foreign threads that are workers of the
//!   runtime. So the runtime's first deadline is known without checking other threads, and neither a busy runtime nor a
//!   slow callback in it delays the timers of other threads. The one member of the tree that serves the others has the
//!   number of the expiry thread; the thread that holds the *role* of the reactor acts for this member.
//!
//! The calls of the trees to the host, when they find a due timer, are in the higher layer `expire`, which takes turns.
//!
//! # Fork
//!
//! The child of a fork has one thread. If this is not the expiry thread, the expiry thread may have been in the middle
//! of any change of the tree of foreign threads, so the child starts with a new tree. If it is the expiry thread, no
//! other thread was changing that tree: foreign threads publish with their base locked, and join and leave with the
//! registry locked, and the forking thread holds all these locks. The tree of workers is always new in a child, and the
//! trees of reactors are abandoned.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use tickless_core::hierarchy::{
    CpuNode, Group, Hierarchy, HierarchyHost, Leaving, MigratorPolicy, NumaNode, Presence, Refused,
};
use tickless_core::platform::CpuId;
use tickless_link::bias::BiasedLock;
use tickless_link::static_table::StaticTable;

use crate::host::barrier::System;
use crate::host::numa;
use crate::host::registry::{self, EXPIRY_THREAD, THREADS_MAX, base, bases};
use crate::host::thread::{ThreadBase, ThreadKind, lock};

/// The number of children of a group.
pub(super) const WIDTH: usize = 8;
/// The number of nodes that are made at a time.
pub(super) const CHUNK: usize = 8;
/// The number of entries of a [`Sparse`] table that are made at a time.
const PAGE: usize = 128;
/// The number of groups of a full tree. Each group of the lowest level has eight nodes, and each group of the other
/// levels has eight groups. Nearly as many groups are added for those that a growing tree leaves half empty, for each
/// NUMA node and at each level.
pub(super) const GROUPS_MAX: usize = THREADS_MAX / 4;

pub(super) type Lock = BiasedLock<System>;

/// A tree of threads.
pub(crate) type Tree = Hierarchy<Table, WIDTH>;

/// The purpose of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Foreign,
    Workers,
    /// The tree of the foreign threads for which the reactor of this number rings.
    Reactor(NonZeroU32),
}

impl Purpose {
    /// Returns the number of the tree in a trace.
    #[cfg(feature = "tracepoints")]
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Foreign => 0,
            Self::Workers => 1,
            Self::Reactor(number) => number.get().saturating_add(1),
        }
    }
}

/// The nodes that are made at a time.
type Chunk = Box<[CpuNode<Lock>]>;

/// The table of the nodes and groups.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) purpose: Purpose,
    pub(super) nodes: Sparse<Chunk>,
    pub(super) groups: Sparse<Box<Group<Lock, WIDTH>>>,
}

/// A table of which only the used part exists, because a process that forks generation after generation has trees of
/// each generation.
#[derive(Debug)]
pub(super) struct Sparse<T> {
    pages: Box<[OnceLock<Page<T>>]>,
}

type Page<T> = Box<[OnceLock<T>]>;

impl<T> Sparse<T> {
    fn new(length: usize) -> Self {
        Self {
            pages: empty(length.div_ceil(PAGE)),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.pages
            .get(index / PAGE)?
            .get()?
            .get(index % PAGE)?
            .get()
    }

    /// Returns the place for an entry; `None` beyond the end.
    pub(super) fn place(&self, index: usize) -> Option<&OnceLock<T>> {
        let page = self.pages.get(index / PAGE)?;
        page.get_or_init(|| empty(PAGE)).get(index % PAGE)
    }
}

impl Table {
    fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            nodes: Sparse::new(THREADS_MAX / CHUNK),
            groups: Sparse::new(GROUPS_MAX),
        }
    }
}

fn empty<T>(length: usize) -> Box<[OnceLock<T>]> {
    (0..length).map(|_| OnceLock::new()).collect()
}

/// The trees of a process. In the child of a fork a new generation replaces them.
#[derive(Debug)]
struct Generation {
    foreign: OnceLock<Tree>,
    /// The tree of workers, which is made with the first worker.
    workers: OnceLock<Tree>,
    /// The earlier generation's tree of foreign threads that is still in use, because the expiry thread of that
    /// generation forked.
    foreign_of: Option<&'static Tree>,
    next: OnceLock<Box<Self>>,
}

impl Generation {
    fn new(foreign_of: Option<&'static Tree>) -> Self {
        Self {
            foreign: OnceLock::new(),
            workers: OnceLock::new(),
            foreign_of,
            next: OnceLock::new(),
        }
    }

    fn foreign(&'static self) -> &'static Tree {
        let own = || self.foreign.get_or_init(|| tree(Purpose::Foreign));
        self.foreign_of.unwrap_or_else(own)
    }

    fn workers(&self) -> &Tree {
        self.workers.get_or_init(|| tree(Purpose::Workers))
    }
}

fn tree(purpose: Purpose) -> Tree {
    let layout = numa::nodes().layout(THREADS_MAX, WIDTH);
    Hierarchy::new(Table::new(purpose), layout, MigratorPolicy::default())
}

/// The number of reactors that there can be, those of this process's ancestors included.
pub(super) const REACTORS_MAX: usize = 1 << 12;

/// The trees of reactors, indexed by their numbers minus one.
static REACTORS: StaticTable<Tree, REACTORS_MAX> = StaticTable::new();

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
    let mut generation = FIRST.get_or_init(|| Generation::new(None));
    while let Some(next) = generation.next.get() {
        generation = next;
    }
    FOUND.set(Some(generation));
    generation
}

/// Returns the tree of foreign threads.
#[inline]
pub(crate) fn foreign() -> &'static Tree {
    current().foreign()
}

/// Returns the tree of workers.
#[inline]
pub(crate) fn workers() -> &'static Tree {
    current().workers()
}

/// Returns the trees of this process that exist: that of foreign threads, that of workers, and those of the reactors of
/// these numbers.
#[cfg(feature = "tracepoints")]
pub(super) fn existing(
    reactors: impl Iterator<Item = NonZeroU32>,
) -> impl Iterator<Item = &'static Tree> {
    let generation = current();
    let of_reactors = reactors.filter_map(|number| REACTORS.get(number.get() as usize - 1));
    let trees = [Some(generation.foreign()), generation.workers.get()];
    trees.into_iter().flatten().chain(of_reactors)
}

/// Returns the tree of the threads for which a reactor rings. Makes the tree on first use, with the member that acts
/// for the reactor asleep.
pub(super) fn of_reactor(number: NonZeroU32) -> &'static Tree {
    let index = number.get() as usize - 1;
    REACTORS.get(index).unwrap_or_else(|| {
        let tree = tree(Purpose::Reactor(number));
        join_tree_locked(&tree, EXPIRY_THREAD, Presence::Idle);
        let tree = Box::leak(Box::new(tree));
        REACTORS
            .publish(index, tree)
            .expect("a reactor's number is in the table")
    })
}

/// Returns the tree that contains the foreign thread on `base`.
fn tree_of(base: &ThreadBase) -> &'static Tree {
    base.local()
        .remote
        .reactor()
        .map_or_else(foreign, of_reactor)
}

/// Starts with new trees in the child of a fork.
pub(crate) fn forget(expiry_thread_survives: bool) {
    if FIRST.get().is_some() {
        let old = current();
        let foreign_of = expiry_thread_survives.then(foreign);
        let _new = old.next.set(Box::new(Generation::new(foreign_of)));
        FOUND.set(None);
    }
}

/// Puts the thread on `base`, which is in no tree, into the tree of foreign threads.
pub(crate) fn join_foreign(base: &ThreadBase) {
    base.local().remote.set_reactor(None);
    join_tree(foreign(), base.cpu(), Presence::Foreign);
}

/// Puts the foreign thread on `base`, which calls this, into the tree of a reactor, and removes it from its present
/// tree. The caller sets the device again.
pub(super) fn move_to(base: &ThreadBase, reactor: NonZeroU32) {
    let _registry = registry::lock();
    let old = tree_of(base);
    join_tree_locked(of_reactor(reactor), base.cpu(), Presence::Foreign);
    let locked = lock(base);
    base.local().remote.set_reactor(Some(reactor));
    drop(locked);
    // Last: what was published there until now is found there.
    let left = old.clear_available(base.cpu(), Leaving::Offline);
    debug_assert!(left.is_ok(), "a thread that leaves has joined: {left:?}");
}

/// Puts the expiry thread, asleep, into the tree of foreign threads.
pub(super) fn join_expiry_thread() {
    join_tree(foreign(), EXPIRY_THREAD, Presence::Idle);
}

/// Puts the worker on `base` into the tree of workers, which fire each other's timers.
pub(crate) fn join(base: &ThreadBase) {
    join_tree(workers(), base.cpu(), Presence::Awake);
}

fn join_tree(tree: &Tree, cpu: CpuId, presence: Presence) {
    // No thread forks meanwhile.
    let _registry = registry::lock();
    join_tree_locked(tree, cpu, presence);
}

/// Works as [`join_tree`], with the registry locked.
fn join_tree_locked(tree: &Tree, cpu: CpuId, presence: Presence) {
    let node = base(cpu).map_or(0, |base| base.local().numa_node());
    let joined = tree
        .prepare(cpu, NumaNode(node))
        .map(|()| tree.set_available(cpu, presence));
    debug_assert!(
        matches!(joined, Ok(Ok(()))),
        "the tables have room for as many threads as there are bases: {joined:?}"
    );
}

/// Removes the thread on `base`, which is no longer a foreign thread, from the tree of foreign threads.
pub(crate) fn leave_foreign(base: &ThreadBase) {
    let _registry = registry::lock();
    let left = tree_of(base).clear_available(base.cpu(), Leaving::Offline);
    debug_assert!(left.is_ok(), "a thread that leaves has joined: {left:?}");
    base.local().remote.set_reactor(None);
}

/// Removes the worker on `base` from the tree of workers: from then on it fires no timers of others, and no other
/// worker fires its timers.
///
/// # Errors
///
/// [`Refused::LastAvailable`] if it leaves for isolation and is the last worker in the tree.
pub(crate) fn leave(base: &ThreadBase, why: Leaving) -> Result<(), Refused> {
    let _registry = registry::lock();
    workers().clear_available(base.cpu(), why)
}

/// Returns whether the worker on `base` is in the tree of workers, which fire each other's timers.
pub(crate) fn takes_part(base: &ThreadBase) -> bool {
    let node = workers().host().node(base.cpu());
    node.is_some_and(CpuNode::is_available)
}

/// Returns whether the thread on `base` is a worker that fires the timers of others.
pub(super) fn is_member(base: &ThreadBase) -> bool {
    base.local().kind() == ThreadKind::Worker && takes_part(base)
}

/// Returns the workers that fire each other's timers.
pub(super) fn members() -> impl Iterator<Item = &'static ThreadBase> {
    bases().filter(|base| is_member(base))
}

#[cfg(test)]
mod tests {
    use tickless_core::hierarchy::{Child, HierarchyHost};

    use super::*;
    use crate::host::lifecycle;
    use crate::host::numa::tests::nodes_of;
    use crate::host::thread::with_thread;

    /// A tree of threads on a machine with four nodes of four CPUs.
    fn tree() -> Tree {
        let layout = nodes_of("two-sockets").layout(THREADS_MAX, WIDTH);
        Hierarchy::new(
            Table::new(Purpose::Workers),
            layout,
            MigratorPolicy::default(),
        )
    }

    #[test]
    fn threads_of_different_nodes_share_no_group_below_the_cross_node_level() {
        let tree = tree();
        for cpu in 0..100 {
            tree.prepare(CpuId(cpu), NumaNode(cpu % 4))
                .expect("there is room");
        }
        for cpu in 0..100 {
            let mut next = tree.host().node(CpuId(cpu)).and_then(CpuNode::leaf);
            while let Some(id) = next {
                let group = tree.host().group(id);
                let crosses = group.level() >= tree.layout().cross_node_level();
                assert!(crosses || group.node() == NumaNode(cpu % 4), "CPU {cpu}");
                next = group.parent();
            }
        }
        let root = tree.root().expect("there is one");
        assert!(matches!(tree.children(root).next(), Some(Child::Group(_))));
    }

    #[test]
    fn a_thread_joins_on_the_node_of_its_base() {
        let visitor = std::thread::spawn(|| {
            let own = with_thread(lifecycle::enter).expect("there are bases enough");
            let before = own.local().numa_node();
            own.local().set_numa_node(3);
            let tree = tree();
            join_tree(&tree, own.cpu(), Presence::Awake);
            own.local().set_numa_node(before);
            let leaf = tree.host().node(own.cpu()).and_then(CpuNode::leaf);
            tree.host().group(leaf.expect("it joined")).node()
        });
        assert_eq!(visitor.join().expect("no panic"), NumaNode(3));
    }

    /// A tree with one thread for each CPU has four groups and a root.
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
