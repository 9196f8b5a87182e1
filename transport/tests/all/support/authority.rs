//! Authorities, and the certificates that they issue. The tests of processes include this file, too.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

/// Issues certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// A certificate that an authority is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whom it is for.
    pub uris: Vec<String>,
    /// The years in which it is good.
    pub years: (i32, i32),
    /// What it may be used for; everything, if nothing is said.
    pub purposes: Vec<ExtendedKeyUsagePurpose>,
}

impl Wish {
    /// For these, for a hundred years, for everything.
    pub fn of(uris: &[&str]) -> Self {
        Self { uris: uris.iter().map(ToString::to_string).collect(), years: (2020, 2120), purposes: vec![] }
    }
}

/// What the certificate of an authority says.
fn wish_to_issue(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    /// An authority of this name, that nobody vouches for.
    pub fn new(name: &str) -> Self {
        let (params, key) = (wish_to_issue(name), KeyPair::generate().unwrap());
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// One that this one vouches for: its own certificate is shown behind those that it issues.
    #[allow(dead_code)] // not all who include this file have such a one
    pub fn under(&self, name: &str) -> Self {
        let (params, key) = (wish_to_issue(name), KeyPair::generate().unwrap());
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate and its key, in PEM.
    pub fn issue(&self, wish: &Wish) -> (String, String) {
        let mut params = CertificateParams::default();
        let uris = wish.uris.iter().map(|uri| SanType::URI(uri.as_str().try_into().unwrap()));
        params.subject_alt_names = uris.collect();
        params.extended_key_usages.clone_from(&wish.purposes);
        params.not_before = date_time_ymd(wish.years.0, 1, 1);
        params.not_after = date_time_ymd(wish.years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// The certificates of authorities, one behind the other.
    pub fn believed(authorities: &[&Self]) -> String {
        authorities.iter().map(|authority| authority.pem.as_str()).collect()
    }
}
