//! Certificates, keys and revocation lists in files, with errors that say what to do.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use exos_host::Error;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::certificate::{
    RsaPublicKey, UnixSecs, Validity, revocation_list, rsa_public_key, validity,
};
use crate::limits::{
    EXPIRY_WARNING_SECS, LISTS_LEN_MAX, PEM_LEN_MAX, RSA_BITS_MAX, RSA_EXPONENT_MIN,
};

/// What anything of DER begins with.
const DER_SEQUENCE: u8 = 0x30;

/// Where a certificate and its key are.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Files {
    /// The server's own certificate, and behind it those of who have signed it.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
    /// What the certificate's issuer says of it (OCSP), in DER.
    pub ocsp: Option<PathBuf>,
}

/// A certificate with its key, as they are used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Both.
    pub key: Arc<CertifiedKey>,
    /// How long it is valid.
    pub validity: Validity,
    /// What an operator should know: who else can read the key, that it is not valid.
    pub warnings: Vec<String>,
}

/// Reads a certificate and its key, which have to belong together. `now` is for warnings of one that is not valid.
///
/// # Errors
///
/// What stands in the way, and what to do.
pub fn load(files: &Files, now: UnixSecs) -> Result<Loaded, Error> {
    let chain = certificates(&files.certificate)?;
    let (key, key_warning) = private_key(&files.key)?;
    let of_key = |why: String| {
        let what = format!("cannot use the key in {}: {why}", files.key.display());
        Error::new(what).mend(
            "make one of ECDSA with P-256, P-384 or P-521, of RSA with 2048 to 4096 bits and the exponent 65537, of Ed25519 or of ML-DSA",
        )
    };
    // Not by the provider's `load_private_key`, which would free the key's bytes as they are.
    let signer = any_supported_type(&key).map_err(|e| of_key(e.to_string()))?;
    let public = signer.public_key().and_then(|key| rsa_public_key(&key));
    if let Some(why) = public.and_then(unfit) {
        return Err(of_key(why));
    }
    let mut certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(error) => return Err(mismatch(files, &certified, &error)),
    }
    let mut warnings: Vec<String> = key_warning.into_iter().collect();
    let leaf = &certified.cert[0];
    let validity = validity(leaf).ok_or_else(|| no_certificate(&files.certificate))?;
    warnings.extend(warning_of_validity(&files.certificate, validity, now));
    if let Some(ocsp) = &files.ocsp {
        certified.ocsp = Some(contents(ocsp, "the OCSP answer")?.0);
    }
    Ok(Loaded {
        key: Arc::new(certified),
        validity,
        warnings,
    })
}

/// Why a key of RSA is not taken that the provider would take.
fn unfit(key: RsaPublicKey) -> Option<String> {
    if key.bits > RSA_BITS_MAX {
        return Some(format!("it is of RSA with {} bits", key.bits));
    }
    let is_small = key.exponent < RSA_EXPONENT_MIN;
    is_small.then(|| format!("it is of RSA with the exponent {}", key.exponent))
}

/// The certificates in a file, in their order.
///
/// # Errors
///
/// It cannot be read, or there is none in it.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let (text, _) = contents(file, "the certificate")?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|e| {
        let what = format!("a certificate in {} is broken: {e}", file.display());
        Error::new(what).mend("write the file again, from what its issuer has sent")
    })?;
    match all.is_empty() {
        true => Err(no_certificate(file)),
        false => Ok(all),
    }
}

/// The revocation lists in a file, of PEM or one of DER.
///
/// # Errors
///
/// It cannot be read, or there is none in it that can be used.
pub fn revocation_lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let (bytes, _) = contents_up_to(LISTS_LEN_MAX, file, "the revocation list")?;
    let name = file.display();
    let lists = match bytes.first() {
        Some(&DER_SEQUENCE) => vec![CertificateRevocationListDer::from(bytes)],
        _ => {
            let lists = CertificateRevocationListDer::pem_slice_iter(&bytes);
            let lists: Result<Vec<_>, _> = lists.collect();
            lists.map_err(|e| {
                Error::new(format!("a revocation list in {name} is broken: {e}"))
                    .mend("write the file again, from what the authority publishes")
            })?
        }
    };
    if lists.is_empty() {
        return Err(Error::new(format!("there is no revocation list in {name}"))
            .mend("name a file of PEM, with lines as -----BEGIN X509 CRL-----, or of DER"));
    }
    for der in &lists {
        let list = revocation_list(der).ok_or_else(|| {
            Error::new(format!("a revocation list in {name} is broken"))
                .mend("write the file again, from what the authority publishes")
        })?;
        if !list.is_v2 {
            let what = format!("a revocation list in {name} is of version 1");
            let mend = "have the authority make one of version 2 (by openssl ca: with crlnumber or crl_extensions in its configuration)";
            return Err(Error::new(what).mend(mend));
        }
    }
    Ok(lists)
}

/// Of several lists of an issuer the newest one: a verifier looks at one of each.
pub fn newest_lists(
    lists: Vec<CertificateRevocationListDer<'static>>,
) -> Vec<CertificateRevocationListDer<'static>> {
    fn about<'a>(der: &'a CertificateRevocationListDer<'_>) -> Option<(&'a [u8], UnixSecs)> {
        revocation_list(der).map(|it| (it.issuer, it.from))
    }
    let is_newest = |at: usize, der: &CertificateRevocationListDer<'_>| {
        let Some((issuer, from)) = about(der) else {
            return true; // The verifier says what is wrong with it.
        };
        let others = lists.iter().enumerate().filter(|(other, _)| *other != at);
        let mut others = others.filter_map(|(other, der)| Some((other, about(der)?)));
        !others.any(|(other, (its, since))| its == issuer && (since, other) > (from, at))
    };
    let all = lists.iter().enumerate();
    let newest = all.filter(|(at, der)| is_newest(*at, der));
    newest.map(|(_, der)| der.clone()).collect()
}

/// What an operator should know of lists: which have expired, so that clients with certificates of their issuers are refused.
pub fn warning_of_lists(
    lists: &[CertificateRevocationListDer<'_>],
    now: UnixSecs,
) -> Option<String> {
    let ends = lists.iter().filter_map(|der| revocation_list(der)?.until);
    let until = ends.min().filter(|until| *until < now)?;
    let ago = span(now - until);
    Some(format!(
        "a revocation list for clients expired {ago} ago: all certificates of its issuer are refused; get the authority's present one"
    ))
}

fn no_certificate(file: &Path) -> Error {
    let what = format!("there is no certificate in {}", file.display());
    Error::new(what).mend(
        "name a file of PEM, with lines as -----BEGIN CERTIFICATE-----, the server's own first",
    )
}

/// A key that is overwritten when it is not used any more.
type SecretKey = Zeroizing<PrivateKeyDer<'static>>;

/// The key in a file, and a warning where others than its owner can read it. What the file has is overwritten, and the key when it
/// is dropped; the decoder of PEM frees its own copy of the base64 as it is.
fn private_key(file: &Path) -> Result<(SecretKey, Option<String>), Error> {
    let (text, metadata) = contents(file, "the key")?;
    let text = Zeroizing::new(text);
    if let Ok(key) = PrivateKeyDer::from_pem_slice(&text) {
        let warning = warning_of_readers(file, &metadata);
        return Ok((Zeroizing::new(key), warning));
    }
    let has = |what: &[u8]| text.windows(what.len()).any(|it| it == what);
    let name = file.display();
    Err(match () {
        () if has(b"ENCRYPTED") => {
            Error::new(format!("the key in {name} is encrypted")).mend(format!(
                "write it in plain, readable by its owner alone: (umask 077; openssl pkey -in {name} -out FILE)"
            ))
        }
        () if has(b"PRIVATE KEY") => Error::new(format!("the key in {name} is broken"))
            .mend("write the file again, or make another key and have a certificate for it"),
        () => Error::new(format!("there is no key in {name}"))
            .mend("name a file of PEM, with a line as -----BEGIN PRIVATE KEY-----"),
    })
}

fn warning_of_readers(file: &Path, metadata: &Metadata) -> Option<String> {
    let name = file.display();
    if metadata.mode() & 0o077 != 0 {
        return Some(format!(
            "others than its owner can read or write the key {name}; do: chmod 600 {name}"
        ));
    }
    let owner = metadata.uid();
    let own = Path::new("/proc/self").metadata().ok()?.uid();
    (owner != 0 && owner != own).then(|| {
        format!("the key {name} is another user's, who can read it; do: chown {own} {name}")
    })
}

/// A time in days, and in hours where it is less than two of them.
fn span(secs: UnixSecs) -> String {
    let (count, unit) = match secs {
        ..3600 => return "less than an hour".to_owned(),
        3600..172_800 => (secs / 3600, "hour"),
        _ => (secs / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

fn warning_of_validity(file: &Path, validity: Validity, now: UnixSecs) -> Option<String> {
    let name = file.display();
    if now > validity.until {
        let ago = span(now - validity.until);
        return Some(format!(
            "the certificate in {name} expired {ago} ago, and clients refuse it; get another"
        ));
    }
    if validity.until - now < EXPIRY_WARNING_SECS && validity.from <= now {
        let left = span(validity.until - now);
        return Some(format!(
            "the certificate in {name} expires in {left}; get another"
        ));
    }
    (now < validity.from)
        .then(|| format!("the certificate in {name} is not valid yet; look at this host's clock"))
}

/// A key that belongs to another certificate, of the same file perhaps.
fn mismatch(files: &Files, certified: &CertifiedKey, error: &rustls::Error) -> Error {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let of_another = certified.cert.iter().skip(1).any(|other| {
        CertifiedKey::new(vec![other.clone()], certified.key.clone())
            .keys_match()
            .is_ok()
    });
    match error {
        _ if of_another => Error::new(format!(
            "the certificates in {certificate} are in the wrong order: that of the key {key} is not the first"
        ))
        .mend("put the server's own first, behind it the one that has signed it, and so on"),
        rustls::Error::InconsistentKeys(_) => Error::new(format!(
            "the key in {key} does not belong to the certificate in {certificate}"
        ))
        .mend("name the key with which the certificate was asked for"),
        error => Error::new(format!(
            "cannot use the certificate in {certificate}: {error}"
        ))
        .mend("write the file again, from what its issuer has sent"),
    }
}

/// What is in a file, which is no longer than such files are, and whose it is: of what was read, not of what has that name now.
fn contents(file: &Path, what: &str) -> Result<(Vec<u8>, Metadata), Error> {
    contents_up_to(PEM_LEN_MAX, file, what)
}

/// [`contents`] of a file that may have this many bytes.
fn contents_up_to(len_max: u64, file: &Path, what: &str) -> Result<(Vec<u8>, Metadata), Error> {
    let name = file.display();
    let fail = |e: std::io::Error| {
        let error = Error::io(format!("cannot read {what} {name}"), e);
        error.mend("name a file that is there, and that the user may read who starts the program")
    };
    // Before it is opened: a pipe would keep that waiting for a writer.
    if !file.metadata().map_err(fail)?.is_file() {
        let none = format!("cannot read {what} {name}: it is no file");
        return Err(Error::new(none).mend(format!("write {what} into a file, and name that")));
    }
    let opened = File::open(file).map_err(fail)?;
    let metadata = opened.metadata().map_err(fail)?;
    // Whole at once: a vector that grows leaves copies behind, of keys too. A byte more tells `read_to_end` that it has all.
    let mut bytes = Vec::with_capacity(metadata.len().min(len_max) as usize + 32);
    let read = opened.take(len_max + 1).read_to_end(&mut bytes);
    read.map_err(fail)?;
    if bytes.len() as u64 > len_max {
        let long = format!("{name} is longer than {len_max} bytes");
        return Err(Error::new(long).mend(format!("name the file of {what}")));
    }
    Ok((bytes, metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_days_and_hours() {
        const HOUR: UnixSecs = 3600;
        for (secs, wanted) in [
            (0, "less than an hour"),
            (HOUR, "1 hour"),
            (47 * HOUR, "47 hours"),
            (48 * HOUR, "2 days"),
            (8 * 24 * HOUR + HOUR, "8 days"),
        ] {
            assert_eq!(span(secs), wanted);
        }
        let of = |from, until| {
            let now = 100 * 24 * HOUR;
            let validity = Validity { from, until };
            warning_of_validity(Path::new("c.pem"), validity, now).unwrap_or_default()
        };
        let day = 24 * HOUR;
        assert!(of(0, 99 * day).starts_with("the certificate in c.pem expired 24 hours ago, and"));
        assert!(of(0, 103 * day).ends_with("expires in 3 days; get another"));
        assert_eq!(of(0, 200 * day), "");
    }

    #[test]
    fn keys_of_rsa_have_bounds() {
        for (bits, exponent, is_taken) in [
            (2048, 65537, true),
            (4096, u64::MAX, true),
            (4097, 65537, false),
            (2048, 65535, false),
        ] {
            let why = unfit(RsaPublicKey { bits, exponent });
            assert_eq!(why.is_none(), is_taken, "{why:?}");
        }
    }
}
