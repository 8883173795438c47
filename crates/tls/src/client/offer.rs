//! What a client offers: which suite, and in which group keys are exchanged.

use rustls::crypto::CryptoProvider;

use crate::policy::{Group, Suite, client_provider, group_name, suite_name};

/// One suite and one group alone, where they are named; of what is not named all that are known, in the order of browsers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// The suite.
    pub suite: Option<Suite>,
    /// The group.
    pub group: Option<Group>,
}

impl Offer {
    pub(super) fn provider(self) -> CryptoProvider {
        let mut provider = CryptoProvider::clone(&client_provider());
        if let Some(suite) = self.suite {
            provider.cipher_suites = vec![suite];
        }
        if let Some(group) = self.group {
            provider.kx_groups = vec![group];
        }
        provider
    }
}

/// Suite and group where one of each is offered, so that every handshake that succeeds has agreed upon them.
pub(super) fn offered_alone(provider: &CryptoProvider) -> Option<String> {
    match (&provider.cipher_suites[..], &provider.kx_groups[..]) {
        ([suite], [group]) => Some(format!(
            "{} {}",
            suite_name(suite.suite()),
            group_name(group.name())
        )),
        _ => None,
    }
}
