//! The search for the base that owns a timer, which ends with that base locked.

use tickless_link::entry::{EntryRef, Family, Owner};
use tickless_link::id::QueueId;
use tickless_link::tree::OwnedEntry;

use crate::base::cpu_base::CpuBase;
use crate::base::expirer::Expirer;
use crate::base::guard::BaseGuard;
use crate::base::state::{BaseState, IDENTITIES};
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::exact::family::{ExpiryRange, Hr};
use crate::platform::{Platform, ThisCpu};
use crate::wheel::family::{Coarse, WheelKind};

/// A family of entries that the bases of CPUs own.
pub(crate) trait BaseQueue: Family {
    /// Makes a queue in `state` the owner of an entry that never had an owner. Returns false if another thread did so
    /// first.
    fn bind(state: &mut BaseState, entry: EntryRef<'_, Self>) -> bool;

    /// Returns true if callbacks of the entry run in the soft stage.
    fn is_soft(entry: EntryRef<'_, Self>) -> bool;

    /// Returns the expirer that runs the callback of an entry of the locked base; `None` if the callback does not run.
    fn expirer<'a, P: Platform>(
        held: &BaseGuard<'a, P>,
        entry: EntryRef<'_, Self>,
    ) -> Option<&'a Expirer<P>>;
}

impl BaseQueue for Hr {
    #[inline]
    fn bind(state: &mut BaseState, entry: EntryRef<'_, Self>) -> bool {
        state.queues[entry.tag().queue()].tree.bind(entry)
    }

    #[inline]
    fn is_soft(entry: EntryRef<'_, Self>) -> bool {
        entry.tag().is_soft()
    }

    fn expirer<'a, P: Platform>(
        held: &BaseGuard<'a, P>,
        entry: EntryRef<'_, Self>,
    ) -> Option<&'a Expirer<P>> {
        entry.state().is_running().then_some(&held.base.exact)
    }
}

impl BaseQueue for Coarse {
    #[inline]
    fn bind(state: &mut BaseState, entry: EntryRef<'_, Self>) -> bool {
        state.wheels[entry.tag() as usize].buckets.bind(entry)
    }

    #[inline]
    fn is_soft(_entry: EntryRef<'_, Self>) -> bool {
        true
    }

    fn expirer<'a, P: Platform>(
        held: &BaseGuard<'a, P>,
        entry: EntryRef<'_, Self>,
    ) -> Option<&'a Expirer<P>> {
        let kind = kind_of(held, entry);
        let place = held.state.wheels[kind as usize].buckets.place_of(entry)?;
        Some(&held.base.coarse[kind as usize][place])
    }
}

impl<P: Platform> Timers<P> {
    /// Finds and locks the base that owns `entry` (spec LOC-2).
    ///
    /// If the entry has no owner, the base of the executing CPU becomes its owner.
    #[inline(always)]
    pub(crate) fn lock_base_of<'a, F: BaseQueue>(
        &'a self,
        entry: EntryRef<'_, F>,
        me: Option<ThisCpu<'a, P>>,
    ) -> BaseGuard<'a, P> {
        if let Owner::Queue(id) = entry.owner()
            && let Some(held) = self.lock_if_owner(entry, id, me)
        {
            return held;
        }
        self.lock_base_of_slow(entry, me)
    }

    /// Locks the base of the queue `id`, and returns it if the queue still owns `entry`.
    #[inline(always)]
    fn lock_if_owner<'a, F: BaseQueue>(
        &'a self,
        entry: EntryRef<'_, F>,
        id: QueueId,
        me: Option<ThisCpu<'a, P>>,
    ) -> Option<BaseGuard<'a, P>> {
        // Usually it is this CPU's, which needs no look-up.
        let held = match me {
            Some(me) if me.base.owns(id) => BaseGuard::lock_own(self, me),
            _ => BaseGuard::lock_foreign(self, self.base_of(id)),
        };
        // The timer may have moved before the lock was ours.
        let is_owner = entry.belongs_to(id);
        is_owner.then_some(held)
    }

    #[cold]
    fn lock_base_of_slow<'a, F: BaseQueue>(
        &'a self,
        entry: EntryRef<'_, F>,
        me: Option<ThisCpu<'a, P>>,
    ) -> BaseGuard<'a, P> {
        let mut attempt = 0;
        loop {
            match entry.owner() {
                Owner::Queue(id) => {
                    if let Some(held) = self.lock_if_owner(entry, id, me) {
                        return held;
                    }
                }
                Owner::Transit => {
                    self.platform.relax(attempt);
                    attempt += 1;
                }
                Owner::Unbound => {
                    let base = match me {
                        Some(me) => me.base,
                        None => self.target(self.platform.pick_target(None, false)),
                    };
                    let mut held = BaseGuard::lock(self, base, me);
                    if F::bind(&mut held.state, entry) {
                        return held;
                    }
                }
            }
        }
    }

    /// Returns the base of the queue with this identity.
    #[inline]
    fn base_of(&self, id: QueueId) -> &CpuBase<P> {
        assert!(
            id.realm() == self.realm.id(),
            "a timer stays with the system that it was first started on"
        );
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a realm has at most 2^24 queues"
        )]
        let cpu = CpuId((id.index() / IDENTITIES) as u32);
        self.target(cpu)
    }

    /// Returns the base of the queue with this identity; `None` if the queue is not part of this system.
    pub(crate) fn owning_base(&self, id: QueueId) -> Option<&CpuBase<P>> {
        if id.realm() != self.realm.id() {
            return None;
        }
        u32::try_from(id.index() / IDENTITIES)
            .ok()
            .and_then(|cpu| self.platform.base(CpuId(cpu)))
    }
}

/// Opens an entry that is known to belong to a tree of the locked base.
#[inline]
pub(crate) fn opened<'h, 'e, P: Platform>(
    held: &'h mut BaseGuard<'_, P>,
    entry: EntryRef<'e, Hr>,
) -> OwnedEntry<'h, 'e, Hr> {
    let index = entry.tag().queue();
    held.state.queues[index]
        .tree
        .open(entry)
        .expect("the base that owns the timer is locked")
}

/// Returns the times of an entry that is known to belong to the locked base.
#[inline]
pub(crate) fn head_of<P: Platform>(
    held: &mut BaseGuard<'_, P>,
    entry: EntryRef<'_, Hr>,
) -> ExpiryRange {
    if let Some(mut bucketed) = held.state.far.open(entry) {
        return *bucketed.head();
    }
    *opened(held, entry).head()
}

/// Returns the kind of the locked base's wheel that holds an entry.
#[inline]
pub(crate) fn kind_of<P: Platform>(
    held: &BaseGuard<'_, P>,
    entry: EntryRef<'_, Coarse>,
) -> WheelKind {
    let Owner::Queue(id) = entry.owner() else {
        unreachable!("only the thread that holds its base sends a timer away");
    };
    held.base
        .wheel(id)
        .expect("the base that owns the timer is locked")
}
