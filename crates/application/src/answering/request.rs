//! A request, as an application reads it: variables of CGI/1.1 (RFC 3875 §4.1), in the form that FastCGI has for them.

use crate::limits::SPARE_LEN_MAX;

/// A request of a web server's client.
#[derive(Clone, Debug)]
pub struct Request {
    variables: Vec<u8>,
    has_body: bool,
    body: Vec<u8>,
}

impl Request {
    /// From variables in FastCGI's form.
    pub fn new(variables: Vec<u8>, has_body: bool) -> Self {
        Self {
            variables,
            has_body,
            body: Vec::new(),
        }
    }

    /// All variables, in order. What is cut off at the end is none.
    pub fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &*self.variables;
        std::iter::from_fn(move || {
            let name = len(&mut rest)?;
            let value = len(&mut rest)?;
            Some((bytes(&mut rest, name)?, bytes(&mut rest, value)?))
        })
    }

    /// One of them, such as `REQUEST_METHOD`, `SCRIPT_NAME`, `PATH_INFO`, `QUERY_STRING` or `HTTP_HOST`.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        let mut variables = self.variables();
        variables.find_map(|(known, value)| (known == name.as_bytes()).then_some(value))
    }

    /// Its body: all of it in [`serve`](super::Application::serve), or what was [kept](super::Application::keep_body) of it.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Bytes of all variables, as they came.
    pub(super) fn variables_len(&self) -> usize {
        self.variables.len()
    }

    /// The memory of its variables, which are nobody's any more.
    pub(super) fn take_variables(&mut self) -> Vec<u8> {
        let mut memory = std::mem::take(&mut self.variables);
        memory.clear();
        memory.shrink_to(SPARE_LEN_MAX);
        memory
    }

    pub(super) fn add_body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    /// A body comes, or has come.
    pub fn has_body(&self) -> bool {
        self.has_body
    }
}

/// Up to 127 in one byte, else in four, of which the first bit says so.
fn len(rest: &mut &[u8]) -> Option<usize> {
    let (&first, behind) = rest.split_first()?;
    if first < 0x80 {
        *rest = behind;
        return Some(usize::from(first));
    }
    let (four, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    Some((u32::from_be_bytes(*four) & !(1 << 31)) as usize)
}

fn bytes<'b>(rest: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (bytes, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        for len in [name.len(), value.len()] {
            match u8::try_from(len) {
                Ok(len) if len < 0x80 => out.push(len),
                _ => out.extend((len as u32 | 1 << 31).to_be_bytes()),
            }
        }
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }

    proptest! {
        #[test]
        fn variables_are_read_as_they_were_written(pairs in proptest::collection::vec((".{0,40}", ".{0,300}"), 0..10), cut in 0..40_usize) {
            let mut all = Vec::new();
            let mut ends = Vec::new();
            for (name, value) in &pairs {
                push(&mut all, name.as_bytes(), value.as_bytes());
                ends.push(all.len());
            }
            let request = Request::new(all.clone(), false);
            let read: Vec<_> = request.variables().collect();
            let wanted: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            prop_assert_eq!(&read, &wanted);
            // Of what is cut off there are those that are whole.
            let len = all.len().saturating_sub(cut);
            let request = Request::new(all[..len].to_vec(), false);
            let whole = ends.iter().filter(|end| **end <= len).count();
            prop_assert_eq!(request.variables().collect::<Vec<_>>(), &wanted[..whole]);
        }

        #[test]
        fn any_bytes_are_variables(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let len = bytes.len();
            let request = Request::new(bytes, false);
            prop_assert!(request.variables().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= len);
            prop_assert!(request.variable("no such variable of this name").is_none());
        }
    }
}
