//! Checks of the rules that hold for a base while its lock is free.

use tickless_link::sync::Ordering;

use crate::base::state::{BaseState, DeferredRearm};
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::exact::queues::SOFT;
use crate::platform::Platform;
use crate::time::Deadline;
use crate::wheel::family::WheelKind;

impl<P: Platform> Timers<P> {
    /// Checks every rule that must hold for `cpu` while its lock is free (spec ), walking all its queues.
    ///
    /// # Panics
    ///
    /// When a rule is broken, which is a bug in this crate.
    pub fn assert_valid(&self, cpu: CpuId) {
        let Some(held) = self.lock(cpu) else {
            return;
        };
        for (index, queue) in held.state.queues.iter().enumerate() {
            queue.tree.assert_valid();
            let first = queue.tree.first_key();
            assert!(
                Some(queue.first_deadline) == first
                    || (first.is_none() && queue.first_deadline == Deadline::FOREVER),
                "INV-6: the cached first deadline of queue {index} is the first key"
            );
            assert!(
                (held.state.queues.active & (1 << index) != 0) == first.is_some(),
                "INV-6: bit {index} of the active mask says whether the queue is empty"
            );
        }
        held.state.far.buckets().assert_valid();
        // Relaxed: written under the lock, which is held.
        assert_wheels_valid(&held.state, |kind| {
            held.base.wheel_due[kind as usize].load(Ordering::Relaxed)
        });
        if held.state.deferred != DeferredRearm::Clear || !held.base.is_online() {
            assert!(
                held.base.armed().is_forever(),
                "INV-4: nothing counts as armed while a rearm is owed, or the CPU is offline"
            );
        }
        // After a jump of the clocks the CPU evaluates when it carries out the kick.
        let armed_counts = held.state.deferred == DeferredRearm::Clear
            && held.base.is_online()
            && !held.state.hang
            && !held.base.is_kicked();
        if armed_counts {
            let (first, _) = held.state.queues.minimum(held.state.counted());
            held.state.far.buckets().for_each(|_, _, head| {
                assert!(
                    held.base.armed().as_nanos() <= head.deadline().as_nanos(),
                    "INV-1: never armed later than a far timer"
                );
                true
            });
            assert!(
                held.base.armed() <= first.not_negative(),
                "INV-1: never armed later than the first timer"
            );
            if !held.state.soft_pending {
                let (soft, _) = held.state.queues.minimum(SOFT);
                assert!(
                    held.state.soft_next <= soft.not_negative(),
                    "the soft stage of {cpu:?} is raised at {:?}, too late for {soft:?}",
                    held.state.soft_next
                );
            }
        }
    }
}

/// Checks every rule of the wheels of a base that must hold while the lock of the base is free.
fn assert_wheels_valid(state: &BaseState, published: impl Fn(WheelKind) -> u64) {
    for kind in WheelKind::ALL {
        let wheel = &state.wheels[kind as usize];
        wheel.assert_valid();
        assert!(
            published(kind) == wheel.next_expiry(),
            "WI2: what is published of {kind:?} is what is known"
        );
    }
}
