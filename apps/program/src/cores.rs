//! On which cores the loops of a program run.

use exos::Error;

/// The cores for this many loops, of those that this process may use: the first ones; or from the one on that is named; or
/// those that are named. None for one loop that runs anywhere.
///
/// # Errors
///
/// There are not as many, or others are named.
pub fn choose(count: usize, named: &[usize], allowed: &[usize]) -> Result<Vec<usize>, Error> {
    let is_allowed = |core: &usize| allowed.contains(core);
    let twice = |at: usize| named[..at].contains(&named[at]);
    if let Some(core) = named.iter().find(|core| !is_allowed(core)) {
        return Err(
            Error::new(format!("this process may not run on core {core}"))
                .mend(format!("choose from {allowed:?}")),
        );
    }
    if let Some(at) = (0..named.len()).find(|&at| twice(at)) {
        return Err(Error::new(format!("core {} is named twice", named[at]))
            .mend("name each once: a core runs one stack"));
    }
    match named {
        [] if count == 1 => Ok(Vec::new()),
        [] | [_] => {
            let first = named.first().map_or(0, |first| place_of(*first, allowed));
            let cores: Vec<usize> = allowed.iter().skip(first).take(count).copied().collect();
            match cores.len() == count {
                true => Ok(cores),
                false => Err(too_few(count, &cores)),
            }
        }
        _ if named.len() == count => Ok(named.to_vec()),
        _ => Err(Error::new(format!(
            "{} cores are named, and {count} are wanted",
            named.len()
        ))
        .mend("name the first, or as many as --cores says")),
    }
}

fn place_of(core: usize, allowed: &[usize]) -> usize {
    let at = allowed.iter().position(|&other| other == core);
    at.unwrap_or(0)
}

fn too_few(count: usize, cores: &[usize]) -> Error {
    let there = cores.len();
    Error::new(format!(
        "{count} cores are wanted, and this process may use {there}: {cores:?}"
    ))
    .mend(format!(
        "give --cores {there}, or let it run on more (taskset, cpuset)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_the_first_ones_or_those_that_are_named() {
        let allowed = [1, 2, 5, 7];
        for (count, named, wanted) in [
            (1, &[][..], &[][..]),
            (1, &[5], &[5]),
            (2, &[], &[1, 2]),
            (3, &[2], &[2, 5, 7]),
            (2, &[7, 1], &[7, 1]),
        ] {
            assert_eq!(
                choose(count, named, &allowed).unwrap(),
                wanted,
                "{count} {named:?}"
            );
        }
        for (count, named, says) in [
            (5, &[][..], "give --cores 4"),
            (2, &[7], "give --cores 1"),
            (2, &[3, 4], "choose from [1, 2, 5, 7]"),
            (1, &[3], "choose from [1, 2, 5, 7]"),
            (3, &[1, 2], "2 cores are named, and 3 are wanted"),
            (2, &[2, 2], "core 2 is named twice"),
        ] {
            let error = choose(count, named, &allowed).unwrap_err().to_string();
            assert!(error.contains(says), "{count} {named:?}: {error}");
        }
    }
}
