//! The costs of a profile, with their names.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::model::input::{InputError, Source};
use crate::model::mark::Mark;
use crate::model::time::Picos;
use crate::model::topology::Distance;

/// A cost: its value, the uncertainty of the value, and the source of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// The time that the simulator charges.
    #[serde(rename = "use")]
    pub value: Picos,
    /// The lowest value that the sources allow.
    pub low: Picos,
    /// The highest value that the sources allow.
    pub high: Picos,
    /// The confidence in the value.
    pub mark: Mark,
    /// The source of the value, and the derivation of the value from the source.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCost {
    #[serde(rename = "use")]
    value: Spanned<String>,
    low: Spanned<String>,
    high: Spanned<String>,
    mark: Mark,
    source: String,
}

impl RawCost {
    fn read(&self, source: &Source<'_>) -> Result<Cost, InputError> {
        let [value, low, high] = [&self.value, &self.low, &self.high];
        let (at, value) = (value.span(), source.time(value)?);
        let (low, high) = (source.time(low)?, source.time(high)?);
        if value < low || value > high {
            let wrong = format!("{value} is not between {low} and {high}");
            return Err(source.error(at, wrong, "low <= use <= high"));
        }
        Ok(Cost {
            value,
            low,
            high,
            mark: self.mark,
            source: self.source.clone(),
        })
    }
}

/// Makes the costs, their names, and their reader out of one list.
macro_rules! costs {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The costs of all operations.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: Cost,)+
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct RawCosts {
            $($name: RawCost,)+
        }

        impl RawCosts {
            pub(crate) fn read(&self, source: &Source<'_>) -> Result<Costs, InputError> {
                Ok(Costs { $($name: self.$name.read(source)?,)+ })
            }
        }

        impl Costs {
            /// Returns the values alone.
            pub(crate) fn charges(&self) -> Charges {
                Charges { $($name: self.$name.value,)+ }
            }
        }

        /// The values of all costs without their sources, close together in memory.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Charges {
            $(pub(crate) $name: Picos,)+
        }
    };
}

costs! {
    /// A read of the time with a fast counter.
    counter,
    /// A read of the slow shared counter while no other CPU reads it.
    slow_counter,
    /// The part of a read of the slow counter during which no other CPU can read it.
    slow_counter_serial,
    /// A load that hits the nearest cache.
    load,
    /// An atomic exchange on a line that the CPU owns.
    exchange,
    /// A line that comes from another thread of the core.
    line_core,
    /// A line that comes from another core of the last-level cache.
    line_cache,
    /// A line that comes from another last-level cache of the socket.
    line_socket,
    /// A line that comes from another socket.
    line_remote,
    /// Acquiring and releasing a lock that is free and near.
    lock,
    /// A contended lock that is passed to a waiter of the same last-level cache.
    hand_cache,
    /// A contended lock that is passed to a waiter of the same socket.
    hand_socket,
    /// A contended lock that is passed to a waiter of another socket.
    hand_remote,
    /// The sender's time for an inter-processor interrupt.
    ipi_send,
    /// The time from sending an inter-processor interrupt to its handler, on the same socket, when the target is awake.
    ipi,
    /// The time from sending an inter-processor interrupt to its handler, on another socket.
    ipi_remote,
    /// The time from sending an inter-processor interrupt to its handler, when the target sleeps. The exit latency of
    /// the target is added.
    ipi_idle,
    /// Writing the event device.
    device_write,
    /// The time from the deadline of the device to the handler, when the CPU is awake.
    device_fire,
    /// Entry into an interrupt from the kernel or from idle, and the return from the interrupt.
    irq_kernel,
    /// Entry into an interrupt from a user's program, and the return from the interrupt.
    irq_user,
    /// Entry into an interrupt and return from it, from a user's program.
    tick,
    /// Raising the soft stage.
    soft_raise,
    /// The soft stage at the end of an interrupt, without the callbacks.
    soft_run,
    /// The check whether a wheel has a due timer.
    soft_check,
    /// The soft stage in a thread: waking the thread, and switching to it and back.
    soft_thread,
    /// Waking a task.
    wake,
    /// Switching to another task.
    switch,
    /// Arming a coarse timer, without the lock.
    wheel_arm,
    /// Removing a coarse timer from its wheel, without the lock.
    wheel_cancel,
    /// Firing a coarse timer, without lock and callback.
    wheel_expire,
    /// Starting an exact timer, without lock, clock and queue.
    hr_start,
    /// Inserting a timer into the sorted queue.
    tree_insert,
    /// Removing a timer from the sorted queue.
    tree_erase,
    /// Checking one CPU in a search for a target, without the loads.
    search_step,
}

impl Charges {
    /// Returns the time to start an exact timer in a sorted tree, besides locks and lines.
    #[inline]
    pub(crate) fn start(&self, was_armed: bool, in_place: bool) -> Picos {
        match (in_place, was_armed) {
            (true, _) => self.hr_start,
            (false, false) => self.hr_start + self.tree_insert,
            (false, true) => self.hr_start + self.tree_insert + self.tree_erase,
        }
    }

    /// Returns the time to start a far timer, which is put unsorted into a slot, besides locks and lines.
    #[inline]
    pub(crate) fn far_start(&self) -> Picos {
        self.hr_start + self.wheel_arm
    }

    /// Returns the price of a cache line that was last written at this distance.
    pub(crate) const fn line(&self, distance: Distance) -> Picos {
        match distance {
            Distance::None => Picos::ZERO,
            Distance::Core => self.line_core,
            Distance::Cache => self.line_cache,
            Distance::Socket => self.line_socket,
            Distance::Remote => self.line_remote,
        }
    }

    /// Returns the price of a contended lock that is passed on from this distance.
    pub(crate) const fn hand(&self, distance: Distance) -> Picos {
        match distance {
            Distance::None => Picos::ZERO,
            Distance::Core | Distance::Cache => self.hand_cache,
            Distance::Socket => self.hand_socket,
            Distance::Remote => self.hand_remote,
        }
    }

    /// Returns the time from sending an inter-processor interrupt to its handler.
    pub(crate) const fn ipi_latency(&self, distance: Distance, is_idle: bool) -> Picos {
        if is_idle {
            self.ipi_idle
        } else if matches!(distance, Distance::Remote) {
            self.ipi_remote
        } else {
            self.ipi
        }
    }
}
