//! Policies beside one another and beside what is possible.

mod reference;
mod traces;
