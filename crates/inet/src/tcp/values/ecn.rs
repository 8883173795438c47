//! Explicit congestion notification (RFC 3168): what an IP header says, and whether a connection uses it. `connection::marks` is the rest.

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Ecn {
    /// Not of an ECN-capable transport.
    #[default]
    NotEct,
    /// ECN-capable, ECT(1).
    Ect1,
    /// ECN-capable, ECT(0): what we mark ours with.
    Ect0,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// The lower two bits of a type-of-service byte or traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// Whether a connection uses explicit congestion notification.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum EcnMode {
    /// Never.
    Off,
    /// When the peer asks for it: Linux's default too (`net.ipv4.tcp_ecn` = 2).
    #[default]
    Accept,
    /// Also ask for it when opening.
    Request,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_names() {
        for bits in 0..=3 {
            assert_eq!(Ecn::of(0xb8 | bits).bits(), bits);
        }
        assert_eq!(Ecn::of(3), Ecn::Ce);
    }
}
