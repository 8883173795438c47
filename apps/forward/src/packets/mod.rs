//! One packet: what is read of it, how it is rewritten, wrapped or answered, and where it goes.
//!
//! | file | what is in it |
//! |---|---|
//! | [`packet`], [`endpoint`] | what is looked at |
//! | [`rewrite`], [`reach`] | other ends, or the same ones |
//! | [`fragments`] | what becomes of pieces |
//! | [`tunnel`], [`too_big`] | packets within packets, and those that are too long for that |
//! | [`icmp`], [`refusal`] | errors about packets, of others and of ours |
//! | `onward` | the link address that it goes on to |
//! | [`traffic`] | how much has gone through |

pub mod endpoint;
pub mod fragments;
pub mod icmp;
pub(crate) mod onward;
pub mod packet;
pub mod reach;
pub mod refusal;
pub mod rewrite;
pub mod too_big;
pub mod traffic;
pub mod tunnel;
