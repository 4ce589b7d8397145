//! The capabilities of a host. A case names the capabilities that it needs.

use core::fmt;

use crate::prelude::*;

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u16);

/// Each capability, with the words that name it in the message about a host that lacks it.
const NAMES: [(Capabilities, &str); 10] = [
    (Capabilities::CPUS, "second CPU"),
    (Capabilities::SOFT, "soft stage"),
    (Capabilities::PATHS, "interrupt paths that the rig scripts"),
    (Capabilities::CLOCKS, "clocks that can be set"),
    (Capabilities::COUNTERS, "counters that can be steered"),
    (Capabilities::DEVICES, "choice of event devices"),
    (Capabilities::PLACEMENT, "say in where timers go"),
    (Capabilities::LOCKS, "count of base locks"),
    (Capabilities::TRACE, "trace"),
    (Capabilities::PANICS, "panic that is caught"),
];

impl Capabilities {
    /// The empty set: a host with no capability beyond those of every host.
    pub const NONE: Self = Self(0);
    /// Several CPUs, and kicks between them.
    pub const CPUS: Self = Self(1);
    /// A soft stage, which [`Platform::raise_soft`](tickless_core::platform::Platform::raise_soft) raises.
    pub const SOFT: Self = Self(1 << 1);
    /// The rig calls the entry points of the core in the place of an interrupt handler. It therefore decides what
    /// happens between an interrupt, its flush points, the soft stage and the scheduler. A host whose
    /// [`interrupt`](crate::Host::interrupt) executes the host's own handler lacks this capability.
    pub const PATHS: Self = Self(1 << 2);
    /// A time of day that can be set, leap seconds, and suspend.
    pub const CLOCKS: Self = Self(1 << 3);
    /// A monotonic clock on top of counters that a suite can exchange and steer.
    pub const COUNTERS: Self = Self(1 << 4);
    /// Event devices of every class, which a suite can make fail and stop.
    pub const DEVICES: Self = Self(1 << 5);
    /// A suite decides which CPUs are idle or isolated, and which CPUs take timers of others.
    pub const PLACEMENT: Self = Self(1 << 6);
    /// The host counts the base locks, and a suite can run code just before one is taken.
    pub const LOCKS: Self = Self(1 << 7);
    /// A trace: [`Platform::trace`](tickless_core::platform::Platform::trace) keeps the events.
    pub const TRACE: Self = Self(1 << 8);
    /// A suite catches panics of the core and of callbacks. A host whose program ends at a panic lacks this capability.
    pub const PANICS: Self = Self(1 << 9);
    /// All capabilities.
    pub const ALL: Self = Self((1 << 10) - 1);

    /// Returns these capabilities and `others`.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns these capabilities without `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns true if all of `others` are in this set.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        others.without(self).is_empty()
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Writes the capabilities as the end of a sentence on a host that lacks them.
impl fmt::Display for Capabilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacking: Vec<&str> = NAMES
            .iter()
            .filter(|(capability, _)| self.contains(*capability))
            .map(|(_, name)| *name)
            .collect();
        formatter.write_str(&lacking.join(" and no "))
    }
}
