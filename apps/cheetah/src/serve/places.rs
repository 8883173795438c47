//! On which cores the server runs.

use exos::{Attachment, Error};

use crate::config::Config;

impl Config {
    /// How many cores are to serve.
    pub(super) fn core_count(&self) -> usize {
        let listed = self.link.core.len().max(1);
        self.cores.map_or(listed, |cores| cores as usize)
    }

    /// What is asked of the library.
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub(super) fn attachment(&self) -> Result<Attachment, Error> {
        let attachment = Attachment {
            cores: self.core_count() as u32,
            ..self.link.attachment(self.port)?
        };
        attachment.check()?;
        Ok(attachment)
    }

    /// The cores to run on, of those that this process may use; none for one loop that runs anywhere.
    ///
    /// # Errors
    ///
    /// There are not as many, or others are named.
    pub(super) fn places(&self, allowed: &[usize]) -> Result<Vec<usize>, Error> {
        let (count, named) = (self.core_count(), &self.link.core[..]);
        if self.syn_handler && count > 1 {
            return Err(Error::new("the kernel answers SYNs for one core only")
                .mend("leave --syn-handler out, or --cores"));
        }
        if self
            .bounds
            .max_connections
            .is_some_and(|most| (most as usize) < count)
        {
            return Err(Error::new("there are to be fewer connections than cores")
                .mend(format!("let max_connections be {count} at least")));
        }
        choose(count, named, allowed)
    }

    /// The same on the kernel's sockets, where there is one loop.
    ///
    /// # Errors
    ///
    /// It may not run where it is to run, or several cores are asked for.
    pub(super) fn place_on_sockets(&self, allowed: &[usize]) -> Result<Vec<usize>, Error> {
        let count = self.core_count();
        if count > 1 {
            return Err(Error::new(format!(
                "{count} cores are to serve, and on sockets the server is one loop"
            ))
            .mend("leave --sockets out; or --cores, and name one --core at most (`cores` and `core` of [link] in the file)"));
        }
        choose(count, &self.link.core, allowed)
    }
}

fn choose(count: usize, named: &[usize], allowed: &[usize]) -> Result<Vec<usize>, Error> {
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
            "{} cores are named, and {count} are to serve",
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
        "{count} cores are to serve, and this process may use {there}: {cores:?}"
    ))
    .mend(format!(
        "give --cores {there}, or let it run on more (taskset, cpuset)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_sockets_there_is_one_loop() {
        let mut config = Config::of(crate::config::Root::Example);
        config.syn_handler = true; // Without effect there.
        assert!(config.place_on_sockets(&[1, 2]).unwrap().is_empty());
        config.link.core = vec![2];
        assert_eq!(config.place_on_sockets(&[1, 2]).unwrap(), [2]);
        config.link.core = vec![2, 1];
        let error = config.place_on_sockets(&[1, 2]).unwrap_err().to_string();
        assert!(error.contains("2 cores are to serve"), "{error}");
        config.link.core.clear();
        config.cores = Some(3);
        let error = config.place_on_sockets(&[1, 2]).unwrap_err().to_string();
        assert!(error.contains("3 cores are to serve"), "{error}");
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
            (3, &[1, 2], "2 cores are named, and 3 are to serve"),
            (2, &[2, 2], "core 2 is named twice"),
        ] {
            let error = choose(count, named, &allowed).unwrap_err().to_string();
            assert!(error.contains(says), "{count} {named:?}: {error}");
        }
    }
}
