//! Certificates and keys as they stand in files.
//!
//! What is wrong is told without any of the contents: one of them is a secret.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore, ServerConfig};

pub(super) const CERTIFICATE: &str = "tls.certificate";
pub(super) const KEY: &str = "tls.key";
pub(super) const CA: &str = "tls.ca";

/// Protocols that a client may choose from; without a choice it speaks HTTP/1.1.
const OFFERED: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Makes the server's side of a certificate with its chain and of the key to it.
pub(super) fn server(contents: &[Vec<u8>]) -> Result<Arc<ServerConfig>, String> {
    let [certificate, key] = contents else { return Err(format!("{CERTIFICATE}: needs {KEY} beside it")) };
    let (chain, key) = (certificates(CERTIFICATE, certificate)?, private_key(key)?);
    let config = ServerConfig::builder_with_provider(provider());
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|error| unfit(&error))?;
    config.alpn_protocols = OFFERED.map(<[u8]>::to_vec).into();
    // A fleet that comes back at once begins with half of the work, and costs no memory meanwhile. The keys to tickets
    // are of this certificate: whoever comes back after a change sees the new one.
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?;
    Ok(Arc::new(config))
}

/// Makes the client's side of whom it believes.
pub(super) fn client(contents: &[Vec<u8>]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CA, &contents.concat())? {
        roots.add(certificate).map_err(|error| format!("{CA}: {error}"))?;
    }
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Named wherever it is needed, so that nothing depends on what else the process has installed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(setting: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(format!("{setting}: the file holds no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{setting}: the file is no well-formed PEM: {}", shape(&error))),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        _ if is_encrypted(pem) => {
            format!("{KEY}: the private key is encrypted, and nobody is asked for its password")
        }
        PemError::NoItemsFound => {
            format!("{KEY}: the file holds no private key in PEM (PKCS#8, PKCS#1 or SEC1)")
        }
        error => format!("{KEY}: the file is no well-formed PEM: {}", shape(&error)),
    })
}

/// Either form says so, one in the section's name, the other in a header of the section.
fn is_encrypted(pem: &[u8]) -> bool {
    let word = b"ENCRYPTED";
    pem.windows(word.len()).any(|window| window == word)
}

/// What is wrong, without the lines at fault.
fn shape(error: &PemError) -> &'static str {
    match error {
        PemError::MissingSectionEnd { .. } => "a section does not end",
        PemError::IllegalSectionStart { .. } => "a section does not begin as it should",
        PemError::Base64Decode(_) => "a section is not base64",
        _ => "it cannot be read",
    }
}

fn unfit(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            format!("{KEY}: it is not the key to the first certificate of {CERTIFICATE}")
        }
        rustls::Error::InvalidCertificate(_) => format!("{CERTIFICATE}: {error}"),
        // Its kind at most, never what it holds.
        error => format!("{KEY}: {error}"),
    }
}
