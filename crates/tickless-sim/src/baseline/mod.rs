//! What the library does not do, to compare with: each policy is one field of [`Policy`], small, and used by nothing
//! else.

pub mod direct_reads;
pub mod plain_tree;
pub mod rearm;
pub mod search;

pub use rearm::Rearm;
use serde::{Deserialize, Serialize};
use tickless_sched::hrtick::Switches;

use crate::machine::host::Host;

/// Where a movable timer is filed that is armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// With the CPU that arms it; a CPU that is awake pulls it while that sleeps. The library's way.
    #[default]
    Local,
    /// With the CPU that arms it, which wakes for it: no CPU takes part in the hierarchy.
    Own,
    /// With a CPU that is busy at this moment, which [`search`] finds. No CPU takes part in the hierarchy: one that
    /// sleeps wakes for its own.
    Search,
    /// With CPU 0, whichever CPU arms it: one wheel for all, behind one lock.
    Single,
}

/// When the tick runs the soft stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Soft {
    /// When a wheel says, without its lock, that something is due. The library's way.
    #[default]
    FirstDue,
    /// Each time.
    Unconditional,
    /// When anything is filed, due or not; a CPU that files for an isolated one sends that an interrupt, because it may
    /// have looked just before.
    Bitmap,
}

/// What isolation means for the hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// An isolated CPU neither pulls nor is pulled. The library's way.
    #[default]
    Exclude,
    /// It takes part like any other.
    TakePart,
}

/// What the governor is told of how long an idle CPU will sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SleepLength {
    /// Until the CPU has to wake: without the timers that others will run.
    #[default]
    Own,
    /// Until its first timer is due, whichever CPU runs it.
    IncludingMovable,
}

/// Which CPU becomes migrator: [`MigratorPolicy`](tickless_core::hierarchy::MigratorPolicy), for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigratorRule {
    /// The lowest active child.
    LowestBit,
    /// The next one round: the default of the library.
    #[default]
    Rotating,
    /// The one that served the fewest.
    LeastLoaded,
}

impl From<MigratorRule> for tickless_core::hierarchy::MigratorPolicy {
    fn from(rule: MigratorRule) -> Self {
        match rule {
            MigratorRule::LowestBit => Self::LowestBit,
            MigratorRule::Rotating => Self::Rotating,
            MigratorRule::LeastLoaded => Self::LeastLoaded,
        }
    }
}

/// What the queues of exact timers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tree {
    /// Sorted trees whose nodes know their neighbours. The library's way.
    #[default]
    Linked,
    /// Sorted trees whose nodes do not: see [`plain_tree`]. Only what they cost.
    Plain,
}

/// How a slow counter is read that all CPUs share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// One CPU for all that wait, as [`combined`](tickless_core::clock::combined) has it. The library's way.
    #[default]
    Combined,
    /// Each CPU for itself, see [`direct_reads`].
    Direct,
}

/// Which task runs next on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The one that came first, until it sleeps or its slice is over: no scheduler in particular.
    #[default]
    Fifo,
    /// The one with the earliest eligible virtual deadline, as [`FairQueue`](tickless_sched::FairQueue) has it.
    Fair,
}

/// When the slice of a task of a fair queue ends. The default is the library's for the platform (TICK-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hrtick {
    /// When it is over: [`HrTick`](tickless_sched::HrTick) has a timer for it.
    On,
    /// The same, and the timer is moved however little that changes.
    Unfiltered,
    /// At the next tick.
    Off,
}

impl Default for Hrtick {
    fn default() -> Self {
        if Switches::of::<Host>().fair {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// When a task with a reservation stops that has spent its runtime. The default is the library's for the platform
/// (TICK-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineTick {
    /// When it is spent: [`HrTick`](tickless_sched::HrTick) has a timer for it.
    On,
    /// At the next tick.
    Off,
}

impl Default for DeadlineTick {
    fn default() -> Self {
        if Switches::of::<Host>().deadline {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// What a CPU does when it has nothing to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// It sleeps: tasks stay where they are.
    #[default]
    None,
    /// It takes a task of a fair queue that waits elsewhere, from the nearest CPU that has one.
    Idle,
}

/// Where a task of a fair queue goes that is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// To the CPU where it was.
    #[default]
    Previous,
    /// There, if that has nothing to run. Else to the nearest CPU of the same last-level cache that has not, keeps
    /// house, and is awake by [the table](tickless_core::platform::pick_target_by_table) of the core.
    Near,
}

/// What the governor goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Governor {
    /// When the next event is.
    #[default]
    NextEvent,
    /// That, and how long the last sleeps of the CPU were.
    History,
}

/// Whether exact timers move that programs start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// No: they are where they are started.
    #[default]
    Off,
    /// By [the table](tickless_core::platform::keep_local_by_table) of the core: what a CPU starts that is isolated, or
    /// whose tick is stopped and which has nothing to run, goes to a CPU near by that keeps house and is awake.
    On,
}

/// The policies of a machine. The default is the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Where timers are filed.
    pub target: Target,
    /// When the tick runs the soft stage.
    pub soft: Soft,
    /// What isolation means.
    pub isolation: Isolation,
    /// What the governor is told.
    pub sleep_length: SleepLength,
    /// Which CPU becomes migrator.
    pub handover: MigratorRule,
    /// What the queues of exact timers are.
    pub tree: Tree,
    /// How a slow counter is read.
    pub reads: Reads,
    /// When devices are written.
    pub rearm: Rearm,
    /// Which task runs next.
    pub scheduler: Scheduler,
    /// When slices of a fair queue end.
    pub hrtick: Hrtick,
    /// When tasks of the deadline class stop.
    pub deadline_hrtick: DeadlineTick,
    /// What a CPU does that has nothing to run.
    pub balance: Balance,
    /// Where a task goes that is woken.
    pub placement: Placement,
    /// What the governor goes by.
    pub governor: Governor,
    /// Whether exact timers move.
    pub migration: Migration,
}
