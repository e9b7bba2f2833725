//! Certificates that a test makes for itself.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

/// Somebody who vouches for servers.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and the key to it, as PEM.
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

/// The files of `[tls]`.
pub struct Files(TempDir);

impl Authority {
    pub fn new() -> Self {
        // One by another's name would be believed until its signature is looked at.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut params = CertificateParams::default();
        let name = format!("authority {}", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For the loopback addresses.
    pub fn issue(&self) -> Issued {
        self.issue_for(&["127.0.0.1", "::1", "localhost"])
    }

    pub fn issue_for(&self, names: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A client that believes nobody else and offers these protocols.
    pub fn believed(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.pem())).unwrap();
        let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|word| word.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// The first certificate of a PEM text.
pub fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

impl Files {
    pub fn new(authority: &Authority, issued: &Issued) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write(issued);
        std::fs::write(files.ca(), authority.pem()).unwrap();
        files
    }

    pub fn write(&self, issued: &Issued) {
        std::fs::write(self.certificate(), &issued.certificate).unwrap();
        std::fs::write(self.key(), &issued.key).unwrap();
    }

    pub fn certificate(&self) -> PathBuf {
        self.0.path().join("certificate.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    pub fn ca(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }
}

/// A path as a setting has it.
pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
