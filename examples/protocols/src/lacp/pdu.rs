//! The messages of LACP systems (clause 6.4.2).

use std::fmt;

/// The identity of a system: the smaller one is the more important.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemId {
    /// Its priority, smaller is more.
    pub priority: u16,
    /// Its MAC address.
    pub address: [u8; 6],
}

/// The identity of a port within its system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId {
    /// Its priority, smaller is more.
    pub priority: u16,
    /// Its number.
    pub number: u16,
}

/// The state of a port as it is sent: eight flags (clause 6.4.2.3 m).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PortState(u8);

impl PortState {
    /// Sends LACPDUs unasked.
    pub const ACTIVITY: Self = Self(0x01);
    /// Wants to be sent one each second, and gives its partner up after three (*short timeout*).
    pub const TIMEOUT: Self = Self(0x02);
    /// Can be aggregated with others.
    pub const AGGREGATION: Self = Self(0x04);
    /// The port is attached to the right aggregator.
    pub const SYNCHRONIZATION: Self = Self(0x08);
    /// Takes frames.
    pub const COLLECTING: Self = Self(0x10);
    /// Gives frames.
    pub const DISTRIBUTING: Self = Self(0x20);
    /// Knows its partner by configuration only.
    pub const DEFAULTED: Self = Self(0x40);
    /// The port has not heard of its partner in time.
    pub const EXPIRED: Self = Self(0x80);

    const NAMES: [(Self, &str); 8] = [
        (Self::ACTIVITY, "activity"),
        (Self::TIMEOUT, "timeout"),
        (Self::AGGREGATION, "aggregation"),
        (Self::SYNCHRONIZATION, "synchronization"),
        (Self::COLLECTING, "collecting"),
        (Self::DISTRIBUTING, "distributing"),
        (Self::DEFAULTED, "defaulted"),
        (Self::EXPIRED, "expired"),
    ];

    /// The flags of both.
    #[must_use]
    pub const fn and(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Returns true if all of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Sets or clears `flags`.
    pub const fn set(&mut self, flags: Self, value: bool) {
        self.0 = if value {
            self.0 | flags.0
        } else {
            self.0 & !flags.0
        };
    }

    /// Returns those of `flags` that are set.
    #[must_use]
    pub const fn only(self, flags: Self) -> Self {
        Self(self.0 & flags.0)
    }
}

impl fmt::Debug for PortState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(flag, _)| self.has(*flag));
        formatter
            .debug_set()
            .entries(set.map(|(_, name)| name))
            .finish()
    }
}

/// The description of one end of a link in an LACPDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The system.
    pub system: SystemId,
    /// Ports with different keys are never aggregated.
    pub key: u16,
    /// The port.
    pub port: PortId,
    /// The state of the port.
    pub state: PortState,
}

impl Party {
    /// Returns true if both describe the same port, with the same key, and agree on whether it can be aggregated.
    pub(super) fn names_same_port(&self, other: &Self) -> bool {
        let aggregation = PortState::AGGREGATION;
        self.system == other.system
            && self.key == other.key
            && self.port == other.port
            && self.state.has(aggregation) == other.state.has(aggregation)
    }
}

/// A Link Aggregation Control Protocol Data Unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacpdu {
    /// The party that sends it.
    pub actor: Party,
    /// The receiver, as the sender knows it.
    pub partner: Party,
    /// The longest time that a frame may wait in the sender's collector, in units of 10 µs.
    pub collector_max_delay: u16,
}

/// The reasons why bytes are no LACPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The frame is not [`Lacpdu::LENGTH`] bytes long.
    Length {
        /// The length of the frame.
        found: usize,
    },
    /// The frame belongs to another slow protocol.
    Subtype {
        /// The subtype.
        found: u8,
    },
    /// A part does not begin as it should.
    Tlv {
        /// The offset of the part.
        at: usize,
        /// Its type and length.
        found: [u8; 2],
        /// The bytes that belong there.
        expected: [u8; 2],
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found } => {
                let length = Lacpdu::LENGTH;
                write!(formatter, "{found} bytes in place of {length}")
            }
            Self::Subtype { found } => write!(formatter, "subtype {found} in place of 1"),
            Self::Tlv {
                at,
                found: [kind, length],
                expected: [wanted_kind, wanted_length],
            } => write!(
                formatter,
                "at byte {at} type {kind} of {length} bytes in place of type {wanted_kind} of {wanted_length}"
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

const SUBTYPE: u8 = 1;
const VERSION: u8 = 1;
/// The parts: where each begins, its type, and its length.
const ACTOR: (usize, [u8; 2]) = (2, [1, 20]);
const PARTNER: (usize, [u8; 2]) = (22, [2, 20]);
const COLLECTOR: (usize, [u8; 2]) = (42, [3, 16]);
const TERMINATOR: (usize, [u8; 2]) = (58, [0, 0]);

impl Lacpdu {
    /// Bytes behind the Ethernet type, without the frame check sequence (figure 6-7).
    pub const LENGTH: usize = 110;

    /// The bytes behind the Ethernet type. Reserved bytes are zero.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = SUBTYPE;
        bytes[1] = VERSION;
        for (at, head) in [ACTOR, PARTNER, COLLECTOR, TERMINATOR] {
            bytes[at..at + 2].copy_from_slice(&head);
        }
        write_party(&mut bytes[ACTOR.0 + 2..], &self.actor);
        write_party(&mut bytes[PARTNER.0 + 2..], &self.partner);
        let delay = COLLECTOR.0 + 2;
        bytes[delay..delay + 2].copy_from_slice(&self.collector_max_delay.to_be_bytes());
        bytes
    }

    /// Reads the bytes behind the Ethernet type. Later versions are read as far as version 1 goes (clause 6.4.2.3 b);
    /// what is reserved is not looked at.
    ///
    /// # Errors
    ///
    /// [`DecodeError`]; the bytes are to be dropped.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() != Self::LENGTH {
            return Err(DecodeError::Length { found: bytes.len() });
        }
        if bytes[0] != SUBTYPE {
            return Err(DecodeError::Subtype { found: bytes[0] });
        }
        let is_version_1 = bytes[1] <= VERSION;
        for (at, expected) in [ACTOR, PARTNER, COLLECTOR, TERMINATOR] {
            let found = [bytes[at], bytes[at + 1]];
            // Later versions may have more parts in place of the terminator.
            if found != expected && (is_version_1 || at != TERMINATOR.0) {
                return Err(DecodeError::Tlv {
                    at,
                    found,
                    expected,
                });
            }
        }
        Ok(Self {
            actor: read_party(&bytes[ACTOR.0 + 2..]),
            partner: read_party(&bytes[PARTNER.0 + 2..]),
            collector_max_delay: read_u16(&bytes[COLLECTOR.0 + 2..]),
        })
    }
}

fn write_party(bytes: &mut [u8], party: &Party) {
    bytes[0..2].copy_from_slice(&party.system.priority.to_be_bytes());
    bytes[2..8].copy_from_slice(&party.system.address);
    bytes[8..10].copy_from_slice(&party.key.to_be_bytes());
    bytes[10..12].copy_from_slice(&party.port.priority.to_be_bytes());
    bytes[12..14].copy_from_slice(&party.port.number.to_be_bytes());
    bytes[14] = party.state.0;
}

fn read_u16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn read_party(bytes: &[u8]) -> Party {
    let mut address = [0; 6];
    address.copy_from_slice(&bytes[2..8]);
    Party {
        system: SystemId {
            priority: read_u16(bytes),
            address,
        },
        key: read_u16(&bytes[8..]),
        port: PortId {
            priority: read_u16(&bytes[10..]),
            number: read_u16(&bytes[12..]),
        },
        state: PortState(bytes[14]),
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Lacpdu, Party, PortId, PortState, SystemId};

    fn sample() -> Lacpdu {
        Lacpdu {
            actor: Party {
                system: SystemId {
                    priority: 0x8001,
                    address: [2, 3, 4, 5, 6, 7],
                },
                key: 0x0a0b,
                port: PortId {
                    priority: 0x0c0d,
                    number: 0x0e0f,
                },
                state: PortState::ACTIVITY.and(PortState::SYNCHRONIZATION),
            },
            partner: Party {
                system: SystemId {
                    priority: 0x1112,
                    address: [0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
                },
                key: 0x191a,
                port: PortId {
                    priority: 0x1b1c,
                    number: 0x1d1e,
                },
                state: PortState::EXPIRED,
            },
            collector_max_delay: 0x1f20,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_standard() {
        let mut expected = [0; 110];
        let head = [
            1, 1, // subtype, version
            1, 20, 0x80, 0x01, 2, 3, 4, 5, 6, 7, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x09, 0, 0, 0,
            2, 20, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
            0x1e, 0x80, 0, 0, 0, 3, 16, 0x1f, 0x20,
        ];
        expected[..head.len()].copy_from_slice(&head);
        assert_eq!(sample().encode(), expected);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Lacpdu::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn other_bytes_are_refused() {
        let good = sample().encode();
        let found = Lacpdu::decode(&good[..109]);
        assert_eq!(found, Err(DecodeError::Length { found: 109 }));
        let broken = |at: usize, value| {
            let mut bytes = good;
            bytes[at] = value;
            Lacpdu::decode(&bytes)
        };
        assert_eq!(broken(0, 2), Err(DecodeError::Subtype { found: 2 }));
        for at in [2, 3, 22, 23, 42, 43, 58, 59] {
            let Err(DecodeError::Tlv { at: found, .. }) = broken(at, 99) else {
                panic!("byte {at} is not looked at");
            };
            assert_eq!(found, at & !1);
        }
    }

    #[test]
    fn reserved_bytes_and_later_versions_are_read() {
        let mut bytes = sample().encode();
        for reserved in (19..22).chain(39..42).chain(46..58).chain(60..110) {
            bytes[reserved] = 0xff;
        }
        assert_eq!(Lacpdu::decode(&bytes), Ok(sample()));
        bytes[1] = 2;
        bytes[58] = 4;
        assert_eq!(Lacpdu::decode(&bytes), Ok(sample()));
    }
}
