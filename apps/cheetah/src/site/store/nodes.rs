//! What was last seen at each path, and by which paths each file is reached.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::root::{Identity, Version};
use crate::site::path::SitePath;
use crate::site::settings::Settings;

/// What was last seen at a path.
#[derive(Debug)]
pub enum Node {
    /// A directory, whose path ends with a slash.
    Directory(Directory),
    /// A file, of which this version is served.
    File(Version),
    /// Something that is not served.
    NotServed,
}

/// What was last seen of a directory.
#[derive(Debug)]
pub struct Directory {
    /// Which one it is.
    pub identity: Identity,
    /// Where it is, relative to the root and without links.
    pub real: PathBuf,
    /// The watch that tells of it.
    pub watch: Option<i32>,
}

/// The nodes by path.
#[derive(Debug)]
pub struct Nodes {
    settings: Arc<Settings>,
    /// Longer files are not in memory.
    memory_len: u64,
    by_path: BTreeMap<SitePath, Node>,
    /// The paths of each file.
    names: HashMap<Identity, Vec<SitePath>>,
    files: usize,
}

impl Nodes {
    /// Nothing has been seen yet. Files longer than `memory_len` bytes are not kept in memory.
    pub fn new(settings: Arc<Settings>, memory_len: u64) -> Nodes {
        Nodes {
            settings,
            memory_len,
            by_path: BTreeMap::new(),
            names: HashMap::new(),
            files: 0,
        }
    }

    /// How documents are sent.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// What was last seen at a path.
    pub fn get(&self, path: &[u8]) -> Option<&Node> {
        self.by_path.get(path)
    }

    /// Takes down a directory, or that something is not served; gives what was there. No file was.
    pub fn insert(&mut self, path: SitePath, node: Node) -> Option<Node> {
        let before = self.by_path.insert(path, node);
        debug_assert!(!matches!(before, Some(Node::File(_))), "forgotten first");
        before
    }

    /// The paths below a directory, itself first, in order.
    pub fn below(&self, directory: &SitePath) -> impl Iterator<Item = &SitePath> {
        let within = self.by_path.range(directory.clone()..);
        within
            .map(|(path, _)| path)
            .take_while(move |path| path.starts_with(directory))
    }

    /// All paths of a file.
    pub fn names(&self, identity: Identity) -> &[SitePath] {
        self.names.get(&identity).map_or(&[], Vec::as_slice)
    }

    /// Paths that are files.
    pub fn file_count(&self) -> usize {
        self.files
    }

    /// Whether a path lies in a directory, by whatever name.
    pub fn is_below(&self, path: &[u8], identity: Identity) -> bool {
        let ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        ends.map(|(at, _)| self.by_path.get(&path[..=at]))
            .any(|node| matches!(node, Some(Node::Directory(d)) if d.identity == identity))
    }

    /// Another path of the same version that is sent in the same manner: its document serves this one too.
    pub fn same(&self, path: &SitePath, version: Version) -> Option<SitePath> {
        let others = self.names(version.identity).iter();
        let mut others = others.filter(|other| *other != path && self.is_version(other, version));
        let manner = self.settings.manner(path);
        others
            .find(|other| self.settings.manner(other) == manner)
            .cloned()
    }

    fn is_version(&self, path: &[u8], version: Version) -> bool {
        matches!(self.get(path), Some(Node::File(known)) if *known == version)
    }

    /// Takes down which version is at a path.
    pub fn record(&mut self, path: &SitePath, version: Version) {
        let known = match self.get(path) {
            Some(Node::File(known)) => Some(known.identity),
            _ => None,
        };
        if known != Some(version.identity) {
            self.forget(path);
            self.files += 1;
            let names = self.names.entry(version.identity).or_default();
            names.push(path.clone());
        }
        self.by_path.insert(path.clone(), Node::File(version));
    }

    /// Bytes of a version's content that are in memory: all or none.
    pub fn len_in_memory(&self, version: Version) -> u64 {
        match version.len <= self.memory_len {
            true => version.len,
            false => 0,
        }
    }

    /// Takes away what was seen at a path; true if something was.
    pub fn forget(&mut self, path: &SitePath) -> bool {
        let node = self.by_path.remove(path);
        if let Some(Node::File(version)) = node {
            self.files -= 1;
            if let Some(names) = self.names.get_mut(&version.identity) {
                names.retain(|name| name != path);
                if names.is_empty() {
                    self.names.remove(&version.identity);
                }
            }
        }
        node.is_some()
    }
}
