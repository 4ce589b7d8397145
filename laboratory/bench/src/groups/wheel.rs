//! The cost of coarse timers on the wheel of one CPU, compared with bare linked lists, which are the lower limit of the
//! cost.
//!
//! The core runs on the CPUs of [`crate::host`], which have no device and do none of a host's own work.

use std::pin::Pin;

use tickless_core::base::Timers;
use tickless_core::coarse::{Tick, WheelKind};
use tickless_core::platform::CpuId;
use tickless_core::slots::geometry;

use crate::harness::{Group, Options, Sink, subjects, time};
use crate::host::{self, Coarse, Host};
use crate::limit::Slots;

fn coarse_timers(count: usize) -> Vec<Pin<Box<Coarse>>> {
    (0..count).map(|_| host::coarse(WheelKind::Local)).collect()
}

const NOW: Tick = Tick(1);
const LIST: &str = "limit: link and unlink a node, set and clear a bit";

/// Returns the expiry of the `index`-th timer: from a hundred ticks to a million ahead.
fn expiry(index: usize) -> Tick {
    let scattered = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
    Tick(100 + scattered)
}

fn delete_all(timers: &Timers<Host>, all: &[Pin<Box<Coarse>>]) {
    for timer in all {
        timer.as_ref().delete(timers);
    }
}

/// Measures arming and deleting a timer among many pending ones.
pub(super) fn arm_and_delete(options: &Options, sink: Sink<'_>) {
    for pending in [0, 1_000, 100_000, 1_000_000] {
        let timers = host::timers();
        let waiting = coarse_timers(pending);
        let slots = Slots::new(pending + 64);
        for (index, timer) in waiting.iter().enumerate() {
            let armed = timer.as_ref().arm(&timers, NOW, expiry(index));
            armed.expect("it is not armed");
            slots.link(index + 64, place(expiry(index)), expiry(index).0);
        }
        let own = coarse_timers(64);
        let operations = options.operations(2_000_000);
        let each = |visit: &dyn Fn(usize, Tick)| {
            time(operations, || {
                for operation in 0..operations {
                    let index = usize::try_from(operation).unwrap_or(0);
                    visit(index % 64, expiry(index.wrapping_add(7_777)));
                }
            })
        };
        let group = Group::measure(
            "arm a coarse timer and delete it",
            pending as u64,
            options,
            subjects![
                "tickless" => {
                    each(&|index, expiry| {
                        let timer = own[index].as_ref();
                        let armed = timer.arm(&timers, NOW, expiry);
                        debug_assert!(armed.is_ok());
                        timer.delete(&timers);
                    })
                },
                LIST => {
                    each(&|index, expiry| {
                        slots.link(index, place(expiry), expiry.0);
                        slots.unlink(index);
                    })
                },
            ],
        );
        sink(group);
        delete_all(&timers, &waiting);
    }
}

/// Returns the number of the slot that the wheel computes for an expiry.
fn place(expiry: Tick) -> usize {
    geometry::place::<9>(NOW, expiry).slot.number()
}

const DRAIN: &str = "limit: unlink a node and call its function";

/// Measures firing many due timers.
pub(super) fn expire(options: &Options, sink: Sink<'_>) {
    let pending = usize::try_from(options.operations(1_000_000)).unwrap_or(1_000_000);
    let timers = host::timers();
    let all = coarse_timers(pending);
    let slots = Slots::new(pending);
    let mut now = 1;
    let group = Group::measure(
        "fire coarse timers that are due",
        pending as u64,
        options,
        subjects![
            "tickless" => {
                for (index, timer) in all.iter().enumerate() {
                    let due = Tick(now + expiry(index).0 % 4_000);
                    timer
                        .as_ref()
                        .arm(&timers, Tick(now), due)
                        .expect("it is not armed");
                }
                now += 10_000;
                time(pending as u64, || {
                    let pass =
                        timers.run_wheel(CpuId(0), WheelKind::Local, Tick(now), u32::MAX);
                    assert_eq!(pass.fired as usize, pending);
                })
            },
            DRAIN => {
                for index in 0..pending {
                    let due = Tick(NOW.0 + expiry(index).0 % 4_000);
                    slots.link(index, place(due), due.0);
                }
                time(pending as u64, || assert_eq!(slots.drain(), pending))
            },
        ],
    );
    sink(group.at_most(0.9, DRAIN));
}
