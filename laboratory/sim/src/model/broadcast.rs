//! The device that wakes CPUs from idle states in which their own device stops, and the list of these states.

use serde::{Deserialize, Serialize};

/// The device or timer that wakes CPUs whose own device has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BroadcastDevice {
    /// One device for all CPUs, which never stops. A write of this device takes as long as a read of the slow counter,
    /// which is the same device on real machines.
    Device,
    /// An exact timer of the CPU that has to wake up first. That CPU stays in an idle state in which its device keeps
    /// running.
    Timer,
}

impl BroadcastDevice {
    /// Returns the name that files use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Timer => "timer",
        }
    }
}
