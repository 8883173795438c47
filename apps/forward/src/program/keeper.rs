//! The file of kept flows: what a forwarder before us left is read, and what changes is written.
//!
//! In memory (tmpfs) a record costs a system call of some 0.3 microseconds, three or four times in the life of a
//! connection. Records are written before what they are about leaves, so nothing is under way of which nobody knows.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use exos::{Error, clock};
use rustix::fs::{FlockOperation, SeekFrom, flock};
use rustix::io::Errno;

use crate::flow::FlowId;
use crate::forwarder::Forwarder;
use crate::kept::{self, RECORD_LEN};
use crate::limits::{DYING_TIME, LOOK_AGAIN_AFTER};

/// Writes flows to their file.
pub struct Keeper {
    path: PathBuf,
    /// `None` once it could not be written.
    file: Option<File>,
    /// Of which state of the services the file has the names.
    named: u64,
}

impl Keeper {
    /// Goes on with the flows that the file has, and keeps all from now on there.
    ///
    /// # Errors
    ///
    /// It cannot be read or written, or is something else.
    pub fn start(path: &Path, forwarder: &mut Forwarder) -> Result<Self, Error> {
        let now = clock::now();
        let flows = read(path)?;
        let count = flows.len();
        let restored = flows
            .iter()
            .filter(|flow| forwarder.restore(now, flow))
            .count();
        if count > 0 {
            exos_program::info!(
                "exos forward: goes on with {restored} of {count} flows of {}",
                path.display()
            );
        }
        let mut keeper = Self {
            path: path.to_owned(),
            file: None,
            named: forwarder.services().changes(),
        };
        keeper.make(forwarder).map_err(|e| {
            Error::io(format!("cannot keep flows in {}", path.display()), e)
                .mend("name a file in a directory that can be written, best of memory (/run)")
        })?;
        Ok(keeper)
    }

    /// A new file in the place of the old one, whole from its first moment.
    fn make(&mut self, forwarder: &mut Forwarder) -> std::io::Result<()> {
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        // One that was left behind is not written to: it, or what a link leads to, may be somebody else's.
        let _ = std::fs::remove_file(&new);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        lock(&file)?;
        let places = forwarder.flows().capacity();
        file.write_all_at(&kept::fixed(places), 0)?;
        file.set_len(place_of(places as usize))?;
        write_names(&file, forwarder)?;
        forwarder.watch();
        for id in forwarder.flows().ids() {
            write(&file, forwarder, id)?;
        }
        std::fs::rename(&new, &self.path)?;
        self.file = Some(file);
        Ok(())
    }

    /// Writes what a flow has become.
    pub fn keep(&mut self, forwarder: &Forwarder, id: FlowId) {
        if let Some(file) = &self.file {
            let written = write(file, forwarder, id);
            self.check(written);
        }
    }

    /// Writes which listeners and servers there are, where that has changed. To be called after [`keep`](Self::keep), so that
    /// nobody is found in another's place, and before packets come to the new ones.
    pub fn keep_names(&mut self, forwarder: &Forwarder) {
        let changes = forwarder.services().changes();
        if self.named == changes {
            return;
        }
        self.named = changes;
        if let Some(file) = &self.file {
            let written = write_names(file, forwarder);
            self.check(written);
        }
    }

    /// What cannot be written goes: flows of the past are worse than none.
    fn check(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            let path = self.path.display();
            exos_program::warn!(
                "exos forward: flows are no longer kept, because {path} cannot be written: {error}"
            );
            let _ = std::fs::remove_file(&self.path);
            self.file = None;
        }
    }
}

/// Where the record of a flow's place is.
fn place_of(place: usize) -> u64 {
    (kept::RECORDS_AT + place * RECORD_LEN) as u64
}

fn write(file: &File, forwarder: &Forwarder, id: FlowId) -> std::io::Result<()> {
    let record = kept::record(forwarder.flows().get(id));
    file.write_all_at(&record, place_of(id.place()))
}

fn write_names(file: &File, forwarder: &Forwarder) -> std::io::Result<()> {
    let mut parts = kept::names(forwarder.services()).into_iter();
    parts.try_for_each(|(at, bytes)| file.write_all_at(&bytes, at as u64))
}

/// Anyone who writes to a file has it locked: the lock goes with its process, however that ends. One that was killed may have it for a
/// moment longer.
fn lock(file: &File) -> std::io::Result<()> {
    let until = Instant::now() + DYING_TIME;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            // A file system without locks keeps flows all the same.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(LOOK_AGAIN_AFTER);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a file can be gone on with, also while another forwarder keeps its flows there.
///
/// # Errors
///
/// It cannot be read, or is something else.
pub fn check(path: &Path) -> Result<(), Error> {
    let file = open(path)?;
    file.map_or(Ok(()), |file| parse(path, file).map(drop))
}

fn read(path: &Path) -> Result<Vec<kept::KeptFlow>, Error> {
    let Some(file) = open(path)? else {
        return Ok(Vec::new());
    };
    lock(&file).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::new(format!(
            "another forwarder keeps its flows in {}",
            path.display()
        ))
        .mend("stop that one first, or name another file with --keep"),
        _ => unreadable(path, error),
    })?;
    parse(path, file)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot read {}", path.display()), error)
}

/// The file, where there is one.
fn open(path: &Path) -> Result<Option<File>, Error> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, error)),
    }
}

/// The flows in it.
fn parse(path: &Path, file: File) -> Result<Vec<kept::KeptFlow>, Error> {
    let unreadable = |error| unreadable(path, error);
    let mut bytes = Vec::new();
    let len = end_of_data(&file).max(kept::RECORDS_AT as u64);
    rustix::fs::seek(&file, SeekFrom::Start(0)).map_err(|error| unreadable(error.into()))?;
    file.take(len).read_to_end(&mut bytes).map_err(unreadable)?;
    kept::read(&bytes).map_err(|unreadable| {
        Error::new(format!(
            "cannot go on with {}: {unreadable}",
            path.display()
        ))
        .mend("remove it, which ends the connections that it knows, or name another with --keep")
    })
}

/// Where what was ever written to a file ends: behind it is nothing but zeros, which for a million flows are 32 MB.
fn end_of_data(file: &File) -> u64 {
    let mut end = 0;
    while let Ok(data) = rustix::fs::seek(file, SeekFrom::Data(end)) {
        // A file system that knows of no holes says that the first is behind all.
        match rustix::fs::seek(file, SeekFrom::Hole(data)) {
            Ok(hole) => end = hole,
            Err(_) => return u64::MAX,
        }
    }
    match end {
        0 => u64::MAX,
        end => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::packet::Transport;
    use crate::packets::reach::Reach;
    use crate::service::{Listen, Services};
    use exos_inet::RxChecksum;
    use exos_wire::Mac;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn forwarder() -> Forwarder {
        let listen = Listen {
            transport: Transport::Udp,
            at: "10.0.0.20:53".parse().unwrap(),
            reach: Reach::Nat,
            to: vec![("10.0.0.11:53".parse().unwrap(), 1, [10, 0, 0, 20].into())],
        };
        Forwarder::new(Services::new(&[listen]).unwrap(), MAC, 1000, 1)
    }

    /// A datagram of a client with this port.
    fn ask(forwarder: &mut Forwarder, port: u16) {
        let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
        let mut ip = [0; 20];
        let header = exos_wire::ipv4::Ipv4Header {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 20].into(),
            protocol: exos_wire::protocol::UDP,
            ttl: 9,
            tos: 0,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
        };
        header.emit(8, &mut ip);
        frame.extend(ip);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 53, 0, 8, 0, 0]);
        forwarder.handle_frame(clock::now(), &mut frame, RxChecksum::Unknown);
    }

    #[test]
    fn what_one_keeps_another_goes_on_with() {
        let path = std::env::temp_dir().join(format!("exos-forward-kept-{}", std::process::id()));
        let victim = path.with_extension("victim");
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, path.with_extension("new")).unwrap();
        let mut first = forwarder();
        let mut keeper = Keeper::start(&path, &mut first).unwrap();
        (1000..1010).for_each(|port| ask(&mut first, port));
        while let Some(id) = first.poll_changed() {
            keeper.keep(&first, id);
        }
        let refused = Keeper::start(&path, &mut forwarder()).err().unwrap();
        assert!(
            refused.to_string().contains("another forwarder keeps"),
            "{refused}"
        );
        // One that ends after the successor has begun to wait.
        let held = keeper;
        let ending = std::thread::spawn(move || {
            std::thread::sleep(DYING_TIME / 10);
            drop(held);
        });
        drop(Keeper::start(&path, &mut forwarder()).unwrap());
        ending.join().unwrap();
        // What somebody else has put where the new file is made is not written to.
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        std::fs::remove_file(&victim).unwrap();
        // The second writes a file of its own with what it has taken over, and so does the third.
        for turn in 0..2 {
            let mut next = forwarder();
            let keeper = Keeper::start(&path, &mut next).unwrap();
            assert_eq!(next.counters().flows_restored, 10, "turn {turn}");
            drop(keeper);
        }
        let private = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(private & 0o777, 0o600);
        std::fs::write(&path, "something else").unwrap();
        let refused = Keeper::start(&path, &mut forwarder()).err().unwrap();
        assert!(
            refused.to_string().contains("it holds no flows"),
            "{refused}"
        );
        std::fs::remove_file(&path).unwrap();
        let nowhere = Path::new("/nowhere/at/all");
        let refused = Keeper::start(nowhere, &mut forwarder()).err().unwrap();
        assert!(
            refused.to_string().contains("cannot keep flows"),
            "{refused}"
        );
    }
}
