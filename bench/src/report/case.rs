//! Cases: what was measured together, a row for each contender. Each field of a case is named once, with what it means and how it comes
//! about, and below them the columns that compare contenders.
//!
//! ```text
//! case! {
//!     /// What a case is.
//!     pub struct Tls in "what/the names/in the first column/are" from (cell: Cell, more: f64) {
//!         /// Its name, which every case has, here or in another field: then `in "..." named FIELD.name`.
//!         name: String = cell.to_string();
//!         /// What a field means, and its value.
//!         size_bytes: u64 = cell.size.bytes();
//!     } of {
//!         /// What each contender did: of this a case is made, too.
//!         results: TlsOutcome;
//!         /// What follows from that.
//!         ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
//!     } columns {
//!         "a ratio to a peer" (ratios by PEER);
//!         "a number" 2 (|case, outcome| case.size_bytes as f64 / outcome.requests_per_sec);
//!         "words" (|case, outcome| case.said_of(outcome));
//!     }
//! }
//! ```
//!
//! The number behind a head is that of digits behind the point.

use super::table::{Head, Tabular};

/// What was measured together: a row for each contender.
pub(crate) trait Case: 'static {
    /// What a contender did, in the columns of the middle.
    type Outcome: Tabular;
    /// What the names in the first column are.
    const NAMES: &'static str;
    /// The last columns.
    const MORE: &'static [Column<Self, Self::Outcome>] = &[];

    /// Its name, and what each did.
    fn parts(&self) -> (&str, &[Self::Outcome]);
}

impl<C: Case> Tabular for C {
    fn heads() -> Vec<Head> {
        let name = Head {
            text: C::NAMES,
            is_text: true,
        };
        let more = C::MORE.iter().map(|column| column.head);
        let all = [name].into_iter().chain(C::Outcome::heads());
        all.chain(more).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let (name, outcomes) = self.parts();
        let rows = |outcome| {
            let more = C::MORE.iter().map(|column| (column.value)(self, outcome));
            let more: Vec<String> = more.collect();
            let rows = outcome.rows().into_iter();
            let whole = |row| [vec![name.to_owned()], row, more.clone()].concat();
            rows.map(whole).collect::<Vec<_>>()
        };
        outcomes.iter().flat_map(rows).collect()
    }
}

/// A column that needs to know what else was measured together: its head, and what it says of a contender in a case.
pub(crate) struct Column<C: ?Sized, O> {
    head: Head,
    value: fn(&C, &O) -> String,
}

impl<C: ?Sized, O> Column<C, O> {
    /// A column of words.
    pub const fn text(text: &'static str, value: fn(&C, &O) -> String) -> Self {
        let is_text = true;
        let head = Head { text, is_text };
        Self { head, value }
    }

    /// What it says of a contender.
    #[cfg(test)]
    pub fn shown(&self, case: &C, outcome: &O) -> String {
        (self.value)(case, outcome)
    }

    /// A column of numbers.
    pub const fn number(text: &'static str, value: fn(&C, &O) -> String) -> Self {
        let is_text = false;
        let head = Head { text, is_text };
        Self { head, value }
    }
}

/// Declares a case, how it is made, and the columns that compare its contenders.
macro_rules! case {
    (@name $case:ident) => {
        &$case.name
    };
    (@name $case:ident $($field:ident)+) => {
        &$case.$($field).+
    };
    (@column $head:literal $ratios:ident by $peer:expr) => {
        $crate::report::Column::text($head, |case, outcome| {
            let name = $crate::report::Contender::name(outcome);
            $crate::report::Ratio::shown(&case.$ratios, &name, $peer)
        })
    };
    (@column $head:literal |$case:pat_param, $outcome:pat_param| $cell:expr) => {
        $crate::report::Column::text($head, |$case, $outcome| $cell)
    };
    (@column $head:literal $digits:literal |$case:pat_param, $outcome:pat_param| $cell:expr) => {
        $crate::report::Column::number($head, |$case, $outcome| {
            $crate::report::Shown::shown(&$cell, $digits)
        })
    };
    (
        $(#[$about:meta])*
        pub struct $case:ident in $names:literal $(named $($named:ident).+)? from ($($given:ident: $given_kind:ty),*) {
            $($(#[$meaning:meta])* $field:ident: $kind:ty = $value:expr;)*
        } of {
            $(#[$results_meaning:meta])* $results:ident: $outcome:ty;
            $($(#[$more_meaning:meta])* $more:ident: $more_kind:ty = $more_value:expr;)*
        } $(columns {
            $($head:literal $($digits:literal)? ($($column:tt)*);)*
        })?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
        pub struct $case {
            $($(#[$meaning])* pub $field: $kind,)*
            $(#[$results_meaning])*
            pub $results: Vec<$outcome>,
            $($(#[$more_meaning])* pub $more: $more_kind,)*
        }

        impl $case {
            pub(super) fn new($($given: $given_kind,)* $results: Vec<$outcome>) -> Self {
                Self {
                    $($field: $value,)*
                    $($more: $more_value,)*
                    $results,
                }
            }
        }

        impl $crate::report::Case for $case {
            type Outcome = $outcome;
            const NAMES: &'static str = $names;
            const MORE: &'static [$crate::report::Column<Self, $outcome>] = &[$($(
                $crate::report::case!(@column $head $($digits)? $($column)*),
            )*)?];

            fn parts(&self) -> (&str, &[$outcome]) {
                ($crate::report::case!(@name self $($($named)+)?), &self.$results)
            }
        }
    };
}
pub(crate) use case;
