//! Pools, aggregates and pipes within one process, and peers that do not do as agreed.

mod aggregates;
mod common;
mod corpus;
mod hostile;
mod lent;
mod pipes;
mod pools;
mod shares;
mod waits;
