//! The Link Aggregation Control Protocol of IEEE 802.1AX-2014 (first IEEE 802.3ad): ports that determine which of them
//! can act as one link, and notice when a port cannot any more.
//!
//! # The machines
//!
//! | machine | clause, figure | its timer |
//! |---|---|---|
//! | Receive ([`ReceiveState`]) | 6.4.12, 6-18 | `current_while`, 3 or 90 s, restarted by each LACPDU |
//! | Periodic Transmission ([`PeriodicState`]) | 6.4.13, 6-19 | `periodic`, 1 or 30 s |
//! | Selection ([`Bond`]) | 6.4.14 | |
//! | Mux, coupled control ([`MuxState`]) | 6.4.15, 6-22 | `wait_while`, 2 s |
//! | Churn Detection, actor and partner ([`ChurnState`]) | 6.4.17, 6-23 and 6-24 | 60 s each |
//!
//! [`Bond`] has the machines of all ports of one system, and is pure: it takes events and the time, and returns
//! [`Action`]s. [`Station`] runs bonds on a host: it mirrors their timers in real timers. [`Network`] joins stations in
//! one virtual machine.
//!
//! # Timers
//!
//! All timers are exact timers. The standard tolerates 250 ms on its timers (clause 6.4.10), and the timer wheel does
//! not keep this tolerance: on the wheel 3 s could end after 3.4 s, and 90 s after 101 s. `current_while` is restarted
//! with each LACPDU and hardly ever fires; such a restart writes one cache line, because the timer keeps its place in
//! the queue. The periodic timers are many, and may have *slack* within the tolerance, so that many of them share a
//! wake-up. The other timers have no slack: they are rare, and ports wait for their decisions.
//!
//! Only the deadlines in the bond are valid. If a timer of the host fires for a deadline that was moved or cancelled
//! meanwhile, the bond recognises this by its own deadline, so no caller ever has to wait for a callback.
//!
//! # Limits
//!
//! The crate has the machines to show their timers. LACPDUs are values, not bytes, and contain only the data of a port
//! that the machines need. The limit of three LACPDUs a second (clause 6.4.16) is missing. Systems are always active.
//! All ports of a bond have one key. Ports are on standby by a rule of this crate (an aggregator as a whole is active
//! or not), not by the standard's resource rules.

mod bond;
mod machines;
mod network;
mod port;
mod station;
mod timers;

pub use bond::{Action, Bond, BondConfig, Rate};
pub use network::{End, Network};
pub use port::{ChurnState, Lacpdu, MuxState, Party, PeriodicState, Port, ReceiveState, Selected};
pub use station::{Frame, Station};
pub use timers::{FAST_PERIODIC_TIME, SLOW_PERIODIC_TIME, TimerKind};
