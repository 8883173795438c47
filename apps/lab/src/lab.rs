//! A lab that is up: its two sides.

use crate::settings::{INTERFACE, Settings, Side, check_name};
use exos_host::netlink::LinkInfo;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use std::ffi::OsStr;
use std::process::Command;

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    pub(crate) name: String,
    pub(crate) sides: [NetNs; 2],
}

impl Lab {
    /// Opens a lab that is up.
    pub fn open(name: &str) -> Result<Self> {
        check_name(name)?;
        match find_sides(name)? {
            [Some(a), Some(b)] => Ok(Self {
                name: name.to_owned(),
                sides: [a, b],
            }),
            _ => {
                let option = if name == Settings::default().name {
                    String::new()
                } else {
                    format!(" --name {name}")
                };
                Err(Error::new(format!("the lab {name} is not up"))
                    .mend(format!("make it with `exos lab up{option}`")))
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of one side.
    pub fn netns(&self, side: Side) -> &NetNs {
        match side {
            Side::A => &self.sides[0],
            Side::B => &self.sides[1],
        }
    }

    /// The state of one side's end of the wire.
    pub fn link(&self, side: Side) -> Result<LinkInfo> {
        self.netns(side).netlink()?.link_by_name(INTERFACE)
    }

    /// A command that will start inside one side.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        self.netns(side).place(&mut command)?;
        Ok(command)
    }
}

/// The namespaces of a lab that are there.
pub(crate) fn find_sides(name: &str) -> Result<[Option<NetNs>; 2]> {
    let [a, b] = Side::BOTH.map(|side| NetNs::find(&side.namespace(name)));
    Ok([a?, b?])
}
