//! An interface, as far as its gate has to know it.

use exos_wire::Mac;

/// The interface that a gate is put on.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its MTU, in bytes.
    pub mtu: u32,
}
