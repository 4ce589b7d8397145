//! The handling of exact timers when a CPU goes online or offline (spec ).

use tickless_link::entry::EntryRef;

use crate::base::guard::BaseGuard;
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::event::DeviceState;
use crate::event::flush::Flush;
use crate::exact::family::{ExpiryRange, Hr, NEAR};
use crate::exact::queues::QUEUES;
use crate::platform::{Platform, Waiting};
use crate::time::{Clock, Deadline, Instant};
use crate::trace::{Event, Placement, StartMode, TimerId};

/// Trace data of a timer that moves from one base to another.
struct Moving {
    timer: TimerId,
    code: usize,
    index: usize,
    head: ExpiryRange,
}

impl Moving {
    fn of(entry: EntryRef<'_, Hr>, index: usize, head: ExpiryRange) -> Self {
        Self {
            timer: TimerId(entry.address()),
            code: entry.code_address(),
            index,
            head,
        }
    }
}

impl<P: Platform> Timers<P> {
    /// Puts `cpu` online for timers. Called on `cpu`, with timer delivery masked.
    ///
    /// State from before the CPU went offline is reset (spec HP-2, HP-3), and the device is programmed for the queued
    /// timers. The call is also allowed for a CPU that went offline only in part (B55).
    pub fn cpu_online(&self, cpu: CpuId) {
        let Some(base) = self.platform.base(cpu) else {
            return;
        };
        // A kick that was on its way when the CPU left never arrived. All is evaluated below, so it is as good as
        // carried out; left standing, it would swallow every later one.
        base.begin_kick();
        let mut held = BaseGuard::lock(self, base, self.platform.this_cpu());
        held.state.reset();
        held.set_armed(Instant::FOREVER);
        held.set_device_state(DeviceState::Oneshot);
        base.set_online(true);
        held.refresh_offsets();
        if held.state.deferred == DeferredRearm::Clear {
            held.reevaluate(false);
        }
    }

    /// Takes `cpu` offline for timers: moves its timers to another CPU, and kicks that CPU. Called on `cpu`, or on
    /// behalf of a CPU that no longer executes any code.
    ///
    /// Timers that are started on `cpu` later go to an online CPU (spec HP-6). The host serialises the calls. Only here
    /// two bases are locked at once, the base of the leaving CPU first (spec LOC-9).
    ///
    /// # Panics
    ///
    /// When the host names `cpu` itself as the CPU that takes over.
    pub fn cpu_offline(&self, cpu: CpuId) {
        let Some(base) = self.platform.base(cpu) else {
            return;
        };
        let me = self.platform.this_cpu();
        // No callback of this base runs beyond this point: a running timer could not move.
        let _no_callbacks = (P::WAITING == Waiting::Sleep).then(|| base.exact.lock.lock(None));
        let mut from = BaseGuard::lock(self, base, me);
        if !base.is_online() {
            return;
        }
        from.state.stats.flushes[Flush::Offline as usize] +=
            u64::from(from.state.deferred != DeferredRearm::Clear);
        base.set_online(false);
        let target = self.platform.pick_target(None, false);
        assert!(
            target != cpu,
            "a CPU that leaves cannot take over its own timers"
        );
        let Some(to) = self.platform.base(target) else {
            return;
        };
        let mut to = BaseGuard::lock(self, to, me);
        let moved = self.move_all(&mut from, &mut to);
        from.set_device_state(DeviceState::Shutdown);
        from.state.reset();
        from.set_armed(Instant::FOREVER);
        let to_base = to.base;
        drop(to);
        drop(from);
        if moved {
            // Also when none of them became first: the target has to bring the time of its soft stage up to date (B56).
            self.kick(to_base, me);
        }
    }

    /// Moves every timer of one locked base to another. Returns true if a timer was moved.
    fn move_all(&self, from: &mut BaseGuard<'_, P>, to: &mut BaseGuard<'_, P>) -> bool {
        let mut moved = false;
        to.state.far.catch_up(&self.platform);
        for index in 0..QUEUES {
            while let Some(mut slot) = from.state.queues[index].tree.open_first() {
                let head = *slot.head();
                let deadline = match slot.key() {
                    // Its task or callback is still to be told.
                    Deadline::CLOCK_SET => Deadline::CLOCK_SET,
                    _ => head.deadline(),
                };
                let moving = Moving::of(slot.entry(), index, head);
                // By its distance, like those in the far wheel: so that equal deadlines stay together, in their order.
                let place = to.state.far.place_of(slot.entry(), head);
                let transit = slot.depart();
                if let Some(place) = place {
                    to.state.far.admit(transit, place, head);
                } else {
                    let first = to.state.queues[index].tree.admit(transit, deadline, |_| ());
                    to.state.queues.after_insertion(index, first, deadline);
                }
                self.note_moved(from, to, moving);
                moved = true;
            }
            from.state.reload_first(index);
        }
        moved | self.move_all_far(from, to)
    }

    /// Counts and traces the move of a timer from one base to another.
    fn note_moved(
        &self,
        from: &BaseGuard<'_, P>,
        to: &mut BaseGuard<'_, P>,
        Moving {
            timer,
            code,
            index,
            head,
        }: Moving,
    ) {
        to.state.stats.arrived += 1;
        if self.platform.is_traced() {
            let (from, to) = (from.base.cpu(), to.base.cpu());
            self.platform.trace(Event::Move { timer, from, to });
            self.platform.trace(Event::Start {
                cpu: to,
                timer,
                code,
                clock: Clock::ALL[index % 4],
                hard: head.deadline().as_nanos(),
                soft: head.earliest().as_nanos(),
                mode: StartMode::default(),
                was_armed: true,
                stood: Placement::Moved,
            });
        }
    }

    /// Moves the timers of the far wheel as [`move_all`](Self::move_all) does. Returns true if a timer was moved.
    fn move_all_far(&self, from: &mut BaseGuard<'_, P>, to: &mut BaseGuard<'_, P>) -> bool {
        let mut moved = false;
        while let Some(mut bucketed) = from.state.far.open_any() {
            let head = *bucketed.head();
            let moving = Moving::of(bucketed.entry(), NEAR, head);
            let (transit, left) = bucketed.depart();
            let state = &mut *to.state;
            if let Some(place) = state.far.place(head) {
                state.far.admit(transit, place, head);
            } else {
                let deadline = head.deadline();
                let tree = &mut state.queues[NEAR].tree;
                let first = tree.admit(transit, deadline, |_| ());
                state.queues.after_insertion(NEAR, first, deadline);
            }
            if let Some(left) = left {
                from.state.far.note_left(left);
            }
            self.note_moved(from, to, moving);
            moved = true;
        }
        moved
    }
}
