//! The options that every program on a stack of its own has: the link, the addresses, the core; and what is asked of the
//! library by them. [`SharingLinkArgs`] are those of programs that may use an address or a port with others. Programs that run on several interfaces ask for [`each`](LinkArgs::each) of several links.

mod args;
mod each;
mod name;
mod options;
#[cfg(test)]
mod tests;

pub use args::{LinkArgs, NamedLink, Needs};
pub(crate) use each::on;
pub use name::{LinkName, ViaName, mode};
pub use options::SharingLinkArgs;
