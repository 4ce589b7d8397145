//! The capabilities of hosts, which cases need.

use std::fmt;
use std::prelude::v1::*;

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u16);

/// The capabilities, and what a host that lacks one has none of.
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
    /// [`Platform::raise_soft`](tickless_core::platform::Platform::raise_soft) leads to a soft stage.
    pub const SOFT: Self = Self(1 << 1);
    /// The rig calls the entry points of the core in the place of an interrupt handler, and so decides what comes
    /// between an interrupt, its flush points, the soft stage and the scheduler. A host whose
    /// [`interrupt`](crate::Host::interrupt) is its own handler does not have this.
    pub const PATHS: Self = Self(1 << 2);
    /// A time of day that can be set, leap seconds, and suspend.
    pub const CLOCKS: Self = Self(1 << 3);
    /// A monotonic clock on top of counters that can be exchanged and steered.
    pub const COUNTERS: Self = Self(1 << 4);
    /// Event devices of every class, which can be told to fail and to stop.
    pub const DEVICES: Self = Self(1 << 5);
    /// The suites say which CPUs are idle, isolated, and take timers of others.
    pub const PLACEMENT: Self = Self(1 << 6);
    /// Base locks are counted, and code of a suite can come in front of one.
    pub const LOCKS: Self = Self(1 << 7);
    /// [`Platform::trace`](tickless_core::platform::Platform::trace) keeps its events.
    pub const TRACE: Self = Self(1 << 8);
    /// A suite catches panics, of the core and of callbacks. A program that a panic ends does not have this.
    pub const PANICS: Self = Self(1 << 9);
    /// All of them.
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
