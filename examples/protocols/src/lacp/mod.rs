//! The Link Aggregation Control Protocol of IEEE 802.1AX-2014 (first IEEE 802.3ad): ports that find out which of them
//! can act as one link, and notice when one cannot any more.
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
//! [`Bond`] has those of all ports of one system, and is pure: events and the time go in, [`Action`]s come out.
//! [`Station`] runs bonds on a host: it mirrors their timers in real ones. [`Network`] joins stations in one virtual
//! machine.
//!
//! # Timers
//!
//! All are exact ones. The standard tolerates 250 ms on its timers (clause 6.4.10), which the timer wheel does not
//! keep: 3 s could end after 3.4 s there, 90 s after 101 s. `current_while` is restarted with each LACPDU and hardly
//! ever fires; such a restart writes one cache line, because the timer stays where it is filed. The periodic timers
//! come in crowds, and may have *slack* within that tolerance, so that many of them share a wake-up. The others have
//! none: they are rare, and what they decide is waited for.
//!
//! The deadlines in the bond count. A timer of the host that fires for a deadline which was moved or taken back
//! meanwhile is recognised by that, so no caller ever has to wait for a callback.
//!
//! # Limits
//!
//! The machines are here for their timers. LACPDUs are values, not bytes, and describe of a port what the machines
//! need; no limit holds of three LACPDUs a second (clause 6.4.16); systems are always active; all ports of a bond have
//! one key. The roles of ports on standby are this crate's (an aggregator is active or not, as a whole), not the
//! standard's resource rules.

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
