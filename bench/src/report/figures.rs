//! Lists of figures: each is named once, with what it means, and all else follows from that. Its name and meaning are the JSON's
//! and its documentation's; its column's head is that of text and HTML; and several runs are put together by what it says.
//!
//! ```text
//! figures! {
//!     /// What a row is.
//!     pub struct Timers {
//!         /// What a figure means.
//!         arm_ns: f64, "arm ns" 0;
//!         /// A column may say something else of the row, and there may be several, or for what only programs read none.
//!         expire_ns: f64, "expire us" 3 |r| r.expire_ns / 1000.0, "both ns" 0 |r| r.arm_ns + r.expire_ns;
//!     }
//! }
//! outcomes! {
//!     /// What one contender did.
//!     pub struct Outcome of
//!     /// Who.
//!     server: String, "server";
//!     /// One measurement.
//!     pub struct Run {
//!         /// What a figure means, in one run, and of several together.
//!         requests_per_sec: f64 as median, "requests/s" 0;
//!     }
//! }
//! ```
//!
//! The number behind a head is that of digits behind the point. An outcome is who did it, the figures of all runs together, and
//! `runs`.

use super::table::Tabular;
use std::iter::Sum;

/// What one contender did in some runs.
pub(crate) trait Contender: Tabular {
    /// How it is named.
    type Who;
    /// What one run showed.
    type Run;

    /// Of its runs.
    fn of(who: Self::Who, runs: Vec<Self::Run>) -> Self;

    /// Its name.
    fn name(&self) -> String;

    /// Every run.
    fn runs(&self) -> &[Self::Run];

    /// Its name, and a figure of every run.
    fn each_run(&self, figure: fn(&Self::Run) -> f64) -> (String, Vec<f64>) {
        (self.name(), self.runs().iter().map(figure).collect())
    }

    /// The one of a name.
    fn find<'a>(all: &'a [Self], name: &str) -> Option<&'a Self> {
        all.iter().find(|one| one.name() == name)
    }
}

/// A figure as a column shows it, with this many digits where it has a point.
pub(crate) trait Shown {
    /// Words, which begin below one another; numbers end so.
    const IS_TEXT: bool = false;

    fn shown(&self, digits: usize) -> String;
}

impl Shown for f64 {
    fn shown(&self, digits: usize) -> String {
        format!("{self:.digits$}")
    }
}

/// Numbers that belong together.
impl Shown for [f64; 2] {
    fn shown(&self, digits: usize) -> String {
        self.map(|value| value.shown(digits)).join("/")
    }
}

/// Declares that kinds of values are shown as they are, and whether they are words.
macro_rules! shown_as_it_is {
    ($($kind:ty: $is_text:literal),*) => {$(
        impl Shown for $kind {
            const IS_TEXT: bool = $is_text;

            fn shown(&self, _: usize) -> String {
                self.to_string()
            }
        }
    )*};
}
shown_as_it_is!(u32: false, u64: false, &str: true, String: true);

/// A dash where nothing was measured.
impl<T: Shown> Shown for Option<T> {
    const IS_TEXT: bool = T::IS_TEXT;

    fn shown(&self, digits: usize) -> String {
        self.as_ref()
            .map_or("-".to_owned(), |value| value.shown(digits))
    }
}

/// A figure of every run. By a pointer: there are hundreds of figures, and each would have a loop of its own to compile.
pub(crate) fn of_each<R, T: Clone>(runs: &[R], figure: fn(&R) -> &T) -> Vec<T> {
    runs.iter().map(|run| figure(run).clone()).collect()
}

/// The median of those runs that have a value.
pub(crate) fn known_median(values: Vec<Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.into_iter().flatten().collect();
    (!known.is_empty()).then(|| super::median(known))
}

/// The median of all runs; nothing where one of them has no value: those that have are not like all.
pub(crate) fn median_where_all_are_known(values: Vec<Option<f64>>) -> Option<f64> {
    let known: Option<Vec<f64>> = values.into_iter().collect();
    known.map(super::median)
}

/// All runs together; of values that some runs may not have, nothing where one has none.
pub(crate) fn sum<T: Sum>(values: Vec<T>) -> T {
    values.into_iter().sum()
}

/// What most runs say; of several, what was said first.
pub(crate) fn usual<T: PartialEq + Copy>(values: Vec<T>) -> T {
    let times = |value: &&T| values.iter().filter(|other| other == value).count();
    *values.iter().rev().max_by_key(times).expect("a run")
}

/// At each place of lists of one length, what `together` makes of the values there.
pub(crate) fn each<T: Copy>(lists: Vec<Vec<T>>, together: impl Fn(Vec<T>) -> T) -> Vec<T> {
    let places = 0..lists[0].len();
    let at = |place: usize| together(lists.iter().map(|list| list[place]).collect());
    places.map(at).collect()
}

/// Declares a struct of figures, and the columns that show them.
macro_rules! figures {
    (@is_text $name:ident, $kind:ty) => { <$kind as $crate::report::Shown>::IS_TEXT };
    (@is_text $name:ident, $kind:ty, $row:ident, $cell:expr) => {{
        fn is_text<T: $crate::report::Shown>(_: fn(&$name) -> T) -> bool {
            T::IS_TEXT
        }
        is_text(|$row| $cell)
    }};
    (@value $all:ident, $figure:ident) => { $all.$figure };
    (@value $all:ident, $figure:ident, $row:ident, $cell:expr) => {{ let $row = $all; $cell }};
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$meaning:meta])* $figure:ident: $kind:ty
                $(, $head:literal $($digits:literal)? $(|$row:ident| $cell:expr)?)*;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
        pub struct $name {
            $($(#[$meaning])* pub $figure: $kind,)*
        }

        impl $crate::report::Tabular for $name {
            fn heads() -> Vec<$crate::report::Head> {
                vec![$($($crate::report::Head {
                    text: $head,
                    is_text: $crate::report::figures!(@is_text $name, $kind $(, $row, $cell)?),
                },)*)*]
            }

            fn rows(&self) -> Vec<Vec<String>> {
                let all = self;
                vec![vec![$($($crate::report::Shown::shown(
                    &$crate::report::figures!(@value all, $figure $(, $row, $cell)?),
                    0 $(+ $digits)?,
                ),)*)*]]
            }
        }
    };
}
pub(crate) use figures;

/// Declares the figures of a run, and what a contender did: these of all its runs together, and every run.
macro_rules! outcomes {
    (
        $(#[$about:meta])*
        pub struct $outcome:ident of
        $(#[$who_meaning:meta])* $who:ident: $who_kind:ty, $who_head:literal;
        $(#[$run_about:meta])*
        pub struct $run:ident {
            $($(#[$meaning:meta])* $figure:ident: $kind:ty as $together:expr
                $(, $head:literal $($digits:literal)? $(|$row:ident| $cell:expr)?)*;)*
        }
    ) => {
        $crate::report::figures! {
            $(#[$run_about])*
            pub struct $run {
                $($(#[$meaning])* $figure: $kind $(, $head $($digits)? $(|$row| $cell)?)*;)*
            }
        }

        $(#[$about])*
        #[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
        pub struct $outcome {
            $(#[$who_meaning])*
            pub $who: $who_kind,
            /// All runs together.
            #[serde(flatten)]
            pub together: $run,
            /// Every run, in order.
            pub runs: Vec<$run>,
        }

        impl std::ops::Deref for $outcome {
            type Target = $run;

            fn deref(&self) -> &$run {
                &self.together
            }
        }

        impl $crate::report::Contender for $outcome {
            type Who = $who_kind;
            type Run = $run;

            fn of($who: $who_kind, runs: Vec<$run>) -> Self {
                let together = $run {
                    $($figure: $together($crate::report::of_each(&runs, |run| &run.$figure)),)*
                };
                Self { $who, together, runs }
            }

            fn name(&self) -> String {
                self.$who.to_string()
            }

            fn runs(&self) -> &[$run] {
                &self.runs
            }
        }

        impl $crate::report::Tabular for $outcome {
            fn heads() -> Vec<$crate::report::Head> {
                let is_text = <$who_kind as $crate::report::Shown>::IS_TEXT;
                let mut heads = <$run as $crate::report::Tabular>::heads();
                heads.insert(0, $crate::report::Head { text: $who_head, is_text });
                heads
            }

            fn rows(&self) -> Vec<Vec<String>> {
                let mut rows = $crate::report::Tabular::rows(&self.together);
                rows[0].insert(0, self.$who.to_string());
                rows
            }
        }
    };
}
pub(crate) use outcomes;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::median;

    #[test]
    fn runs_are_put_together_by_what_they_say() {
        assert_eq!(known_median(vec![None, Some(2.0), Some(4.0)]), Some(3.0));
        assert_eq!(known_median(vec![None]), None);
        assert_eq!(sum(vec![Some(1), Some(2)]), Some(3));
        assert_eq!(sum(vec![Some(1), None::<u64>]), None);
        assert_eq!(usual(vec!["a", "b", "b"]), "b");
        assert_eq!(usual(vec!["a", "b"]), "a");
        let lists = vec![vec![1.0, 5.0], vec![3.0, 7.0], vec![2.0, 9.0]];
        assert_eq!(each(lists, median), [2.0, 7.0]);
    }
}
