//! On which cores the server runs.

use exos::{Attachment, Error, Role};
use exos_program::Needs;
use exos_program::cores::choose;

use super::Config;

impl Config {
    /// How many cores are to serve.
    fn core_count(&self) -> usize {
        let listed = self.link.core.len().max(1);
        self.cores.map_or(listed, |cores| cores as usize)
    }

    /// What is asked of the library.
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub(crate) fn attachment(&self) -> Result<Attachment, Error> {
        self.link.attachment(&Needs {
            cores: self.core_count() as u32,
            ..Needs::new(Role::Serve(self.port))
        })
    }

    /// The cores to run on, of those that this process may use; none for one loop that runs anywhere.
    ///
    /// # Errors
    ///
    /// There are not as many, or others are named.
    pub(crate) fn places(&self, allowed: &[usize]) -> Result<Vec<usize>, Error> {
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

    /// Where a server on the kernel's sockets runs, which has one loop.
    ///
    /// # Errors
    ///
    /// It may not run where it is to run, or several cores are asked for.
    pub(crate) fn place_on_sockets(&self, allowed: &[usize]) -> Result<Vec<usize>, Error> {
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
}
