//! Key exchange that withstands quantum computers as well: X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem), which is ML-KEM-768 (FIPS 203) and
//! X25519 side by side. What is agreed on is secret as long as one of the two holds.
//!
//! ```text
//! client    encapsulation key 1184 | X25519 32        server    ciphertext 1088 | X25519 32
//! secret    ML-KEM 32 | X25519 32
//! ```
//!
//! X25519 is the provider's. Random numbers are ring's.

use std::fmt;

use ml_kem::kem::Decapsulate as _;
use ml_kem::{B32, DecapsulationKey, EncapsulationKey, KeyExport as _, MlKem768, Seed};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup,
};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};
use zeroize::Zeroizing;

/// Bytes of an encapsulation key, and of a ciphertext (FIPS 203 §8).
const KEY_LEN: usize = 1184;
const CIPHERTEXT_LEN: usize = 1088;

/// What a peer has sent is none.
const INVALID: Error = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);

/// The group, for TLS 1.3.
pub static X25519_MLKEM768: &dyn SupportedKxGroup = &Hybrid;

#[derive(Debug)]
struct Hybrid;

/// A client's half, until the server's has come.
struct Active {
    own: Box<DecapsulationKey<MlKem768>>,
    classical: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl fmt::Debug for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Active").finish_non_exhaustive()
    }
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Error> {
    let mut bytes = Zeroizing::new([0; N]);
    let filled = SystemRandom::new().fill(&mut *bytes);
    filled.map_err(|_| Error::from(GetRandomFailed))?;
    Ok(bytes)
}

/// Both secrets, the newer one first.
fn join(newer: &[u8], classical: &SharedSecret) -> SharedSecret {
    SharedSecret::from([newer, classical.secret_bytes()].concat())
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let classical = X25519.start()?;
        let own = DecapsulationKey::<MlKem768>::from_seed(Seed::from(*random::<64>()?));
        let share = [&own.encapsulation_key().to_bytes(), classical.pub_key()].concat();
        Ok(Box::new(Active {
            own: Box::new(own),
            classical,
            share,
        }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (theirs, classical) = share.split_at_checked(KEY_LEN).ok_or(INVALID)?;
        let theirs = theirs.try_into().map_err(|_| INVALID)?;
        // FIPS 203 §7.2: coefficients beyond the modulus are refused.
        let theirs = EncapsulationKey::<MlKem768>::new(theirs).map_err(|_| INVALID)?;
        let classical = X25519.start_and_complete(classical)?;
        let (ciphertext, secret) = theirs.encapsulate_deterministic(&B32::from(*random::<32>()?));
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&*ciphertext, &classical.pub_key].concat(),
            secret: join(&secret, &classical.secret),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

impl ActiveKeyExchange for Active {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, classical) = share.split_at_checked(CIPHERTEXT_LEN).ok_or(INVALID)?;
        let ciphertext = ciphertext.try_into().map_err(|_| INVALID)?;
        let classical = self.classical.complete(classical)?;
        Ok(join(&self.own.decapsulate(ciphertext), &classical))
    }

    /// A server that does not know the whole can take its half: it is offered too.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.classical.group(), self.classical.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        self.classical.complete(share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}
