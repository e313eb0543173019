//! Certificates and keys, and their PEM files.

use crypto::secret::Secret;
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{TlsError, Validity};
use crate::connection::pinned::{CERTIFICATE_NAME, Fingerprint};

/// A self-signed certificate and its key: what a server is known by where no authority vouches for it.
pub struct Identity(CertifiedKey);

impl Identity {
    /// Makes a fresh one.
    ///
    /// # Errors
    /// When the system cannot make a key.
    pub fn generate() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![CERTIFICATE_NAME.to_owned()])?.self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self(CertifiedKey { chain: vec![certificate.der().clone()], key }))
    }

    /// The one of this seed, the same on every machine: an Ed25519 key and a certificate that it signs. Whoever has the
    /// seed can pose as this server.
    ///
    /// # Errors
    /// When no certificate can be made of it.
    pub fn from_seed(seed: &Secret<[u8; 32]>) -> Result<Self, TlsError> {
        // PKCS #8 of an Ed25519 key (RFC 8410): everything but the seed is fixed.
        let mut der =
            Secret::new(b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec());
        der.expose_mut().reserve_exact(seed.expose().len());
        der.expose_mut().extend_from_slice(seed.expose());
        let key = PrivatePkcs8KeyDer::from(std::mem::take(der.expose_mut()));
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519)?;
        let certificate = CertificateParams::new(vec![CERTIFICATE_NAME.to_owned()])?.self_signed(&pair)?;
        Ok(Self(CertifiedKey { chain: vec![certificate.der().clone()], key: PrivateKeyDer::Pkcs8(key) }))
    }

    /// Reads one that [`Identity::to_pem`] wrote.
    ///
    /// # Errors
    /// When there is no certificate with its key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        Ok(Self(CertifiedKey::from_pem(pem, pem)?))
    }

    /// Certificate and key as PEM. Whoever has it can pose as this server.
    pub fn to_pem(&self) -> Secret<String> {
        let certificate = pem("CERTIFICATE", &self.0.chain[0]);
        let key = Secret::new(pem("PRIVATE KEY", self.0.key.secret_der()));
        Secret::new(certificate + key.expose())
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint()
    }

    /// Another handle on the same, for one more connection.
    pub(super) fn clone_key(&self) -> CertifiedKey {
        CertifiedKey { chain: self.0.chain.clone(), key: self.0.key.clone_key() }
    }

    /// To serve with it.
    pub fn into_key(self) -> CertifiedKey {
        self.0
    }
}

/// One block of PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes make a line of 64 digits.
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits =
                (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
            for digit in 0..4 {
                let is_padding = digit > three.len();
                let value = (bits >> (18 - 6 * digit)) & 63;
                text.push(if is_padding { '=' } else { char::from(DIGITS[value as usize]) });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// A chain of certificates and the key of the first.
pub struct CertifiedKey {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl CertifiedKey {
    /// Reads both from PEM.
    ///
    /// # Errors
    /// When either is missing, or the key is not that of the first certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| TlsError::Pem { what: "private key", source })?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        rustls::sign::CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider).map_err(|error| {
            match error {
                rustls::Error::InconsistentKeys(_) => TlsError::OtherKey,
                error => TlsError::Unusable(error),
            }
        })?;
        Ok(Self { chain, key })
    }

    /// From when to when the first certificate is valid, where its dates can be read.
    pub fn validity(&self) -> Option<Validity> {
        Validity::of(&self.chain[0])
    }

    /// Whether the first certificate is an authority's own, which clients that trust that authority take for no server's.
    pub fn is_authority(&self) -> bool {
        says_authority(&self.chain[0])
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }
}

/// Whether a certificate has the extension "basic constraints" (RFC 5280, section 4.2.1.9) with CA:TRUE. Looked for, not parsed: a
/// warning hangs on it and nothing else.
fn says_authority(certificate: &[u8]) -> bool {
    const BASIC_CONSTRAINTS: [u8; 5] = [0x06, 0x03, 0x55, 0x1d, 0x13];
    const TRUE: [u8; 3] = [0x01, 0x01, 0xff];
    let place = certificate.windows(BASIC_CONSTRAINTS.len()).position(|window| window == BASIC_CONSTRAINTS);
    let Some(extension) = place.map(|place| &certificate[place + BASIC_CONSTRAINTS.len()..]) else {
        return false;
    };
    // Critical or not, then a text of bytes that holds the sequence.
    let value = extension.strip_prefix(&TRUE).unwrap_or(extension);
    matches!(value, [0x04, _, 0x30, _, rest @ ..] if rest.starts_with(&TRUE))
}

/// The certificates of a PEM file, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |source| TlsError::Pem { what: "certificate", source };
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
    if found.is_empty() {
        return Err(refuse(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(found)
}

pub(super) fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_read_back() {
        let fingerprint = Identity::generate().unwrap().fingerprint();
        assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
        let text = fingerprint.to_string().to_uppercase();
        let pairs: Vec<_> = (0..32).map(|at| &text[2 * at..2 * at + 2]).collect();
        assert_eq!(pairs.join(":").parse::<Fingerprint>().unwrap(), fingerprint);
        for bad in ["", "zz", &"g".repeat(64), &"é".repeat(32)] {
            assert!(bad.parse::<Fingerprint>().is_err());
        }
    }

    /// Clients of several servers pin this fingerprint: no later version may make another one of the same seed.
    #[test]
    fn an_identity_of_a_seed_is_the_same_everywhere_and_for_ever() {
        let identity = |byte| Identity::from_seed(&Secret::new([byte; 32])).unwrap();
        let expected = "a96867911d75f3abad9c01d53ddc6eb560b557c4c9364c6dc32e9ad3783c410c";
        assert_eq!(identity(7).fingerprint().to_string(), expected);
        assert_ne!(identity(8).fingerprint(), identity(7).fingerprint());
        let again = Identity::from_pem(identity(7).to_pem().expose().as_bytes()).unwrap();
        assert_eq!(again.fingerprint(), identity(7).fingerprint());
    }

    #[test]
    fn a_certificate_says_whether_it_is_an_authoritys() {
        use rcgen::{BasicConstraints, IsCa};
        let says = |is_ca: IsCa| {
            let mut parameters = CertificateParams::new(vec!["here".to_owned()]).unwrap();
            parameters.is_ca = is_ca;
            says_authority(parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
        };
        assert!(says(IsCa::Ca(BasicConstraints::Unconstrained)));
        assert!(says(IsCa::Ca(BasicConstraints::Constrained(0))));
        assert!(!says(IsCa::NoCa) && !says(IsCa::ExplicitNoCa));
        assert!(!Identity::generate().unwrap().into_key().is_authority());
        assert!(!says_authority(&[0x06, 0x03, 0x55, 0x1d, 0x13]));
    }

    #[test]
    fn an_identity_reads_back_from_pem() {
        let identity = Identity::generate().unwrap();
        let pem = identity.to_pem();
        let again = Identity::from_pem(pem.expose().as_bytes()).unwrap();
        assert_eq!(again.fingerprint(), identity.fingerprint());
        assert_eq!(again.to_pem().expose(), pem.expose());
        assert!(Identity::from_pem(b"nothing").is_err());
    }
}
