//! Alternatives to the library's policies, for comparison: each is one field of [`Policy`], small, and used by nothing
//! else.

pub mod direct_reads;
pub mod plain_tree;
pub mod rearm;
pub mod search;

pub use rearm::Rearm;
use serde::{Deserialize, Serialize};

/// The CPU whose wheel receives a movable timer when it is armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The CPU that arms the timer. An awake CPU pulls the timer while the arming CPU sleeps. This is the library's
    /// policy.
    #[default]
    Local,
    /// The CPU that arms the timer, which wakes up for the timer: no CPU takes part in the hierarchy.
    Own,
    /// A busy CPU, which [`search`] finds. No CPU takes part in the hierarchy: a sleeping CPU wakes up for its own
    /// timers.
    Search,
}

/// The condition under which the tick runs the soft stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Soft {
    /// The tick runs the soft stage when a check of a wheel, without its lock, finds that a timer is due. This is the
    /// library's policy.
    #[default]
    FirstDue,
    /// Every tick runs the soft stage.
    Unconditional,
    /// The tick runs the soft stage when any timer is queued, due or not. A CPU that enqueues for an isolated one sends
    /// it an interrupt, because the isolated CPU may have checked just before.
    Bitmap,
}

/// The place of isolated CPUs in the hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// An isolated CPU neither pulls timers nor are its timers pulled. This is the library's policy.
    #[default]
    Exclude,
    /// An isolated CPU takes part as any other.
    TakePart,
}

/// The rule for the next migrator: [`MigratorPolicy`](tickless_core::hierarchy::MigratorPolicy), for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigratorRule {
    /// The lowest active child.
    LowestBit,
    /// The next active child in turn: the default of the library.
    #[default]
    Rotating,
}

impl From<MigratorRule> for tickless_core::hierarchy::MigratorPolicy {
    fn from(rule: MigratorRule) -> Self {
        match rule {
            MigratorRule::LowestBit => Self::LowestBit,
            MigratorRule::Rotating => Self::Rotating,
        }
    }
}

/// The data structure of the queues of exact timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tree {
    /// Sorted trees with links between neighbours. This is the library's policy.
    #[default]
    Linked,
    /// Sorted trees without links between neighbours: see [`plain_tree`]. Only the costs differ.
    Plain,
}

/// The way to read a slow counter that all CPUs share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// One CPU reads for all CPUs that wait, by [`combined`](tickless_core::clock::combined). This is the library's
    /// policy.
    #[default]
    Combined,
    /// Each CPU reads by itself, see [`direct_reads`].
    Direct,
}

/// The rule for the next task of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The task that came first runs, until it sleeps or its slice is over.
    #[default]
    Fifo,
    /// The task with the earliest eligible virtual deadline runs, by [`FairQueue`](tickless_sched::FairQueue).
    Fair,
}

/// The precision with which slices of a fair queue end. The default is the library's for the platform (TICK-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hrtick {
    /// The slice ends at its deadline, by a timer of [`HrTick`](tickless_sched::HrTick).
    On,
    /// The slice ends at its deadline, and the timer is moved for every change of the deadline, however small.
    Unfiltered,
    /// The slice ends at the next tick.
    Off,
}

/// The precision with which a task with a reservation stops when its runtime is spent. The default is the library's for
/// the platform (TICK-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineTick {
    /// The task stops when its runtime is spent, by a timer of [`HrTick`](tickless_sched::HrTick).
    On,
    /// The task stops at the next tick.
    Off,
}

/// The behaviour of a CPU that has nothing to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The CPU sleeps, and tasks stay on their CPUs.
    #[default]
    None,
    /// The CPU pulls a waiting task from the fair queue of the nearest CPU that has one.
    Idle,
}

/// The CPU for a woken task of a fair queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The CPU where the task was.
    #[default]
    Previous,
    /// The CPU where the task was, if it has nothing to run. Otherwise the nearest CPU of the same last-level cache
    /// that has nothing to run, is a housekeeping CPU, and is awake by [the
    /// table](tickless_core::platform::pick_target_by_table) of the core.
    Near,
}

/// The data on which the governor decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Governor {
    /// The time of the next event.
    #[default]
    NextEvent,
    /// The time of the next event, and the lengths of the CPU's last sleeps.
    History,
}

/// The migration of exact timers that programs start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// Timers stay on the CPU that starts them.
    #[default]
    Off,
    /// [The table](tickless_core::platform::keep_local_by_table) of the core decides whether a timer stays. A timer
    /// that is started on an isolated CPU, or on a CPU with a stopped tick and nothing to run, moves to a near
    /// housekeeping CPU that is awake.
    On,
}

/// The policies of a machine. The default is the library.
#[expect(missing_docs, reason = "the type of each field says what it is")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub target: Target,
    pub soft: Soft,
    pub isolation: Isolation,
    pub handover: MigratorRule,
    pub tree: Tree,
    pub reads: Reads,
    pub rearm: Rearm,
    pub scheduler: Scheduler,
    pub hrtick: Hrtick,
    pub deadline_hrtick: DeadlineTick,
    pub balance: Balance,
    pub placement: Placement,
    pub governor: Governor,
    pub migration: Migration,
}
