//! What programs count, as a list: each counter with its place in a map and the name that it is shown under.

/// Declares an enum of counters in the order of their places, how many there are, and the list of them with their names.
macro_rules! counters {
    ($(#[$of:meta])* $type:ident($number:ident), $count:ident;
     $($(#[$doc:meta])* $counter:ident: $name:literal,)*) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($number)]
        pub enum $type { $($(#[$doc])* $counter,)* }

        impl $type {
            /// How many there are.
            pub const COUNT: $count = [$($name),*].len() as $count;

            /// All of them, with the names that they are shown under.
            pub const ALL: [(Self, &'static str); Self::COUNT as usize] =
                [$((Self::$counter, $name)),*];
        }
    };
}

pub(crate) use counters;
