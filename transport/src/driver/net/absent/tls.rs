//! In place of TLS where it is left out: nobody has a certificate then, and nobody is asked for one.

use super::wire::{WireRead, WireWrite};
use crate::{
    core::hello::Certified,
    driver::tls::Tls,
    error::{CertificateFault, Refused},
};

/// What would be known after it.
pub(crate) struct Encrypted {
    pub(crate) names: Result<Vec<Certified>, CertificateFault>,
    pub(crate) binding: [u8; 32],
}

#[allow(clippy::unused_async)] // as the one that it stands for
pub(crate) async fn encrypt(
    tls: &Tls,
    _: bool,
    _: &[u8],
    _: &mut WireRead,
    _: &mut WireWrite,
) -> Result<Encrypted, Refused> {
    match tls.never {}
}
