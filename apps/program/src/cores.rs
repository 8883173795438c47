//! On which cores the loops of a program run, and which of its links each has.
//!
//! A loop has one link, or a share of its queues. With more cores than links each link has several; with fewer, several
//! loops run on a core, and sleep as soon as they have nothing to do.

use exos::Error;

use crate::{LinkArgs, LinkName};

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

/// How many cores are chosen where nobody says how many: one for each link, as far as there are.
pub fn by_links(links: usize, allowed: &[usize]) -> usize {
    links.min(allowed.len()).max(1)
}

/// The cores of each of a program's links, by how many it runs on and which are named, of those that this process may use. None for a
/// lone loop that runs anywhere.
///
/// # Errors
///
/// As those of [`choose`] and [`deal`].
pub fn places(
    links: &[LinkArgs],
    count: usize,
    named: &[usize],
    allowed: &[usize],
) -> Result<Vec<Vec<usize>>, Error> {
    let mut cores = choose(count, named, allowed)?;
    if links.len() == 1 {
        return Ok(vec![cores]);
    }
    if cores.is_empty() {
        cores.extend(allowed.first());
    }
    let names = links.iter().filter_map(|link| link.link.as_ref());
    let shared_out: Vec<bool> = names.map(LinkName::can_be_shared_out).collect();
    deal(&cores, &shared_out)
}

/// The cores of each link, one loop on each: with fewer cores than links in turn, else dealt out, as many to each as to the
/// others. Of each link, whether several cores may have a share of it.
///
/// # Errors
///
/// There are more cores than loops.
fn deal(cores: &[usize], links: &[bool]) -> Result<Vec<Vec<usize>>, Error> {
    let first = (0..links.len()).map(|link| vec![cores[link % cores.len()]]);
    let mut each: Vec<Vec<usize>> = first.collect();
    let others = cores.get(links.len()..).unwrap_or_default();
    let shared_out: Vec<usize> = (0..links.len()).filter(|&link| links[link]).collect();
    if shared_out.is_empty() && !others.is_empty() {
        let (links, count) = (links.len(), cores.len());
        return Err(Error::new(format!(
            "{links} queues are named, and {count} cores are wanted"
        ))
        .mend("give as many --cores as links, or name a link without its queue"));
    }
    for (core, &link) in others.iter().zip(shared_out.iter().cycle()) {
        each[link].push(*core);
    }
    Ok(each)
}

/// Several loops run on this core.
pub fn is_shared(core: usize, each: &[Vec<usize>]) -> bool {
    each.iter()
        .flatten()
        .filter(|other| **other == core)
        .count()
        > 1
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
    fn each_link_has_its_cores() {
        for (cores, links, wanted) in [
            (&[4, 5][..], &[true, true][..], vec![vec![4], vec![5]]),
            // Fewer than links: in turn.
            (&[4], &[true, true], vec![vec![4], vec![4]]),
            (
                &[4, 5],
                &[true, true, false],
                vec![vec![4], vec![5], vec![4]],
            ),
            // More: dealt out, to those that have queues for them.
            (&[4, 5, 6], &[true, true], vec![vec![4, 6], vec![5]]),
            (&[4, 5, 6, 7], &[true, true], vec![vec![4, 6], vec![5, 7]]),
            (&[4, 5, 6, 7], &[false, true], vec![vec![4], vec![5, 6, 7]]),
        ] {
            assert_eq!(deal(cores, links).unwrap(), wanted, "{cores:?} {links:?}");
        }
        let error = deal(&[4, 5, 6], &[false, false]).unwrap_err().to_string();
        assert!(error.contains("2 queues are named, and 3 cores"), "{error}");
        assert!(is_shared(4, &[vec![4], vec![5], vec![4]]));
        assert!(!is_shared(5, &[vec![4], vec![5], vec![4]]));
        assert_eq!([by_links(2, &[0, 1, 2]), by_links(3, &[7])], [2, 1]);
    }

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
