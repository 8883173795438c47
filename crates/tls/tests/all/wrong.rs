//! Servers whose certificates are wrong, in more than ten ways: each is refused, and a person is told what is wrong with it.

use std::sync::Arc;

use exos_tls::client::{Client, Trust, reason, told};
use exos_tls::policy::provider;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, NameConstraints, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::client::{base64, meet};

const HOST: &str = "www.lab.test";

/// What stands in a certificate that is good.
fn good() -> CertificateParams {
    CertificateParams::new([HOST.to_owned()]).unwrap()
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A chain of one authority and what lies between it and the host: each signs the next.
struct Chain {
    /// The one that clients trust.
    root: CertificateDer<'static>,
    /// What the server shows, its own first.
    shown: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Chain {
    fn of(
        root: &CertificateParams,
        between: &[CertificateParams],
        own: &CertificateParams,
    ) -> Self {
        let mut key = KeyPair::generate().unwrap();
        let anchor = root.self_signed(&key).unwrap();
        let (mut above, mut shown) = (root, Vec::new());
        for params in between.iter().chain([own]) {
            let next = KeyPair::generate().unwrap();
            let issuer = Issuer::from_params(above, &key);
            shown.insert(0, params.signed_by(&next, &issuer).unwrap().into());
            (above, key) = (params, next);
        }
        Self {
            root: anchor.into(),
            shown,
            key,
        }
    }

    fn simple(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut own = good();
        change(&mut own);
        Self::of(&authority("root"), &[], &own)
    }
}

/// Shows a certificate, whatever it is.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesServerCert for Shows {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// What a client that trusts the root says of the server; nothing where all is well.
fn said_of(chain: &Chain) -> Option<(&'static str, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root.pem");
    let text = base64(&chain.root);
    let text = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    std::fs::write(&file, text).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(chain.key.serialize_der()));
    let signer = provider(&[]).key_provider.load_private_key(key).unwrap();
    let shown = Arc::new(CertifiedKey::new(chain.shown.clone(), signer));
    let config = ServerConfig::builder_with_provider(provider(&[]));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Shows(shown)));
    config.enable_secret_extraction = true;
    let client = Client::new(&Trust::File(file), HOST, &[]).unwrap();
    let error = meet(&client, &Arc::new(config), false).err()?;
    Some((reason(&error), told(&error, "10.0.0.1:443").to_string()))
}

#[test]
fn certificates_are_wrong_in_many_ways() {
    assert_eq!(said_of(&Chain::simple(|_| ())), None, "one that is good");
    let between = [authority("between")];
    let whole = Chain::of(&authority("root"), &between, &good());
    assert_eq!(said_of(&whole), None, "one behind another");

    let mut cases = Vec::new();
    let mut case = |name: &'static str, chain: Chain, reason: &'static str, says: &'static str| {
        cases.push((name, chain, reason, says));
    };
    let other = |name: &str| CertificateParams::new([name.to_owned()]).unwrap();

    let chain = Chain::simple(|own| own.not_after = date_time_ymd(2020, 1, 1));
    case("it is over", chain, "certificate_expired", "has expired");
    let chain = Chain::simple(|own| own.not_before = date_time_ymd(4000, 1, 1));
    let reason = "certificate_not_valid_yet";
    case("it is yet to come", chain, reason, "is not valid yet");
    let chain = Chain::of(&authority("root"), &[], &other("other.lab.test"));
    let reason = "certificate_of_another_name";
    case("another host's", chain, reason, "other.lab.test");
    let chain = Chain::of(&authority("root"), &[], &other("*.test"));
    case("a star for two labels", chain, reason, "*.test");
    let chain = Chain::of(
        &authority("root"),
        &[],
        &CertificateParams::new([]).unwrap(),
    );
    case("nobody's", chain, reason, "www.lab.test");

    let reason = "certificate_not_trusted";
    let says = "no authority that is trusted here has signed";
    let stranger = Chain::simple(|_| ()).root;
    let chain = Chain {
        root: stranger,
        ..Chain::of(&authority("stranger"), &[], &good())
    };
    case("a stranger has signed it", chain, reason, says);
    let chain = Chain {
        root: Chain::simple(|_| ()).root,
        ..Chain::simple(|_| ())
    };
    let other_key = "not the one of this name that is trusted here, or has another key";
    case(
        "a stranger of the authority's name",
        chain,
        reason,
        other_key,
    );
    let mut chain = Chain::of(&authority("root"), &between, &good());
    chain.shown.pop();
    case("what is between is not shown", chain, reason, says);
    let key = KeyPair::generate().unwrap();
    let chain = Chain {
        root: Chain::simple(|_| ()).root,
        shown: vec![good().self_signed(&key).unwrap().into()],
        key,
    };
    case("signed by itself", chain, reason, says);

    let reason = "certificate_invalid";
    let clients = ExtendedKeyUsagePurpose::ClientAuth;
    let chain = Chain::simple(|own| own.extended_key_usages.push(clients));
    case("for clients alone", chain, reason, "is not for servers");
    let chain = Chain::of(&authority("root"), &[other("no.authority.test")], &good());
    case(
        "no authority has signed it",
        chain,
        reason,
        "by what is no authority",
    );
    let chain = Chain::simple(|own| own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    case("an authority's own", chain, reason, "is an authority's");
    let mut short = authority("between");
    short.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let chain = Chain::of(&authority("root"), &[short, authority("more")], &good());
    case("too many between", chain, reason, "more authorities");
    let mut narrow = authority("between");
    narrow.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("other.test".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let chain = Chain::of(&authority("root"), &[narrow], &good());
    case(
        "not that authority's names",
        chain,
        reason,
        "may not sign for",
    );
    let mut strange = CustomExtension::from_oid_content(&[1, 2, 3, 4, 5], vec![5, 0]);
    strange.set_criticality(true);
    let chain = Chain::simple(|own| own.custom_extensions.push(strange));
    case(
        "it has to be understood, and is not",
        chain,
        reason,
        "critical extension",
    );
    let mut chain = Chain::simple(|_| ());
    chain.shown[0] = CertificateDer::from(chain.shown[0][..100].to_vec());
    case("it is cut", chain, reason, "is broken");
    let mut chain = Chain::simple(|_| ());
    chain.key = KeyPair::generate().unwrap();
    let reason = "certificate_not_trusted";
    case("its key is another", chain, reason, other_key);

    for (name, chain, wanted, says) in cases {
        let (reason, said) = said_of(&chain).unwrap_or_else(|| panic!("{name}: it is refused"));
        assert_eq!(reason, wanted, "{name}: {said}");
        let is_told = said.contains(says) && said.contains("10.0.0.1:443");
        assert!(is_told, "{name}: {said}");
    }
}
