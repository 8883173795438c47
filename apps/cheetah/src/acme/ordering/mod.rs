//! Orders: one certificate, from the account to its chain.
//!
//! | file | what is in it |
//! |---|---|
//! | [`account`] | the account that orders |
//! | [`order`] | one certificate, from the account to its chain |
//! | [`signing`] | its last step, which the authority counts |
//! | [`answer`] | whether what has come is what was asked for |
//! | [`orders`] | those that are under way |
//! | [`turn`] | which of them speaks with the authority |

mod account;
mod answer;
mod order;
mod orders;
mod signing;
mod turn;

pub(super) use order::Authority;
pub(super) use orders::{Order, Orders};
