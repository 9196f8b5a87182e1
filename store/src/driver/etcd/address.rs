//! Where the members are, and how they are spoken to: the URL.

use std::{fmt::Write, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{LIMITS, MOST_OPERATIONS, space::Space};
use crate::{core::transaction::Limits, error::OpenError};

/// The port that etcd's clients expect.
const PORT: u16 = 2379;
/// What keys begin with where the URL has no prefix.
const PREFIX: &str = "callsign";
/// How long one attempt to reach a member may take. Shorter than etcd's own election.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// How often a silent connection is asked whether it lives. etcd throws clients out that ask more often than each 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(6);
/// How long that may stay unanswered.
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(3);
/// How many comparisons of a transaction are the store's own at most: which store it is, and the place of what is appended.
const OWN_COMPARISONS: usize = 2;
/// What may be under way to us before we have to say that we go on: more than an answer usually has.
const WINDOW: u32 = 4 << 20;

/// What a URL says.
#[derive(Clone, Debug)]
pub(crate) struct EtcdAddress {
    /// Host and port of each member, in the URL's order.
    pub(super) members: Vec<String>,
    pub(super) space: Space,
    prefix: String,
    pub(super) user: Option<User>,
    /// The most operations of one transaction.
    pub(super) operations: usize,
    tls: Option<ClientTlsConfig>,
}

#[derive(Clone)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("User").field(&self.name).finish()
    }
}

/// Files and words of the URL's options.
#[derive(Default)]
struct EtcdOptions {
    tls: Option<bool>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    operations: Option<usize>,
}

/// Never the URL itself: it may hold a password.
fn wrong(cause: impl Into<String>) -> OpenError {
    OpenError::WrongEtcdUrl { cause: cause.into() }
}

impl EtcdAddress {
    /// Reads a URL, and the files that it names. What makes no sense in it is an error; nothing is connected.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let rest = url
            .strip_prefix("etcd://")
            .ok_or_else(|| wrong("it does not begin with etcd://: use etcd://HOST:2379/PREFIX"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let members = hosts.split(',').map(member).collect::<Result<Vec<_>, _>>()?;
        let prefix = match decoded(path.trim_end_matches('/'))?.as_str() {
            "" => PREFIX.to_owned(),
            prefix if prefix.starts_with('/') || prefix.contains('\0') => {
                return Err(wrong("its prefix begins with / or has a NUL"));
            }
            prefix => prefix.to_owned(),
        };
        let user = user.map(self::user).transpose()?;
        let options = parse_options(options)?;
        let tls = tls(&options)?;
        let operations = options.operations.unwrap_or(MOST_OPERATIONS);
        Ok(Self { members, space: Space::new(&prefix), prefix, user, operations, tls })
    }

    /// The URL for people: without the password, and without what does not matter to them.
    pub(crate) fn describe(&self) -> String {
        let mut url = "etcd://".to_owned();
        if let Some(user) = &self.user {
            // Writing to a string does not fail.
            let _ = write!(url, "{}@", user.name);
        }
        format!("{url}{}/{}", self.members.join(","), self.prefix)
    }

    /// What a transaction may have.
    pub(super) fn limits(&self) -> Limits {
        Limits { checks: Some(self.operations - OWN_COMPARISONS), ..LIMITS }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// How a member is spoken to. Nothing is connected.
    pub(super) fn endpoint(&self, member: &str) -> Result<Endpoint, tonic::transport::Error> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{member}"))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER)
            .initial_connection_window_size(WINDOW)
            .initial_stream_window_size(WINDOW);
        match &self.tls {
            Some(tls) => endpoint.tls_config(tls.clone()),
            None => Ok(endpoint),
        }
    }
}

fn member(text: &str) -> Result<String, OpenError> {
    let no_host = || wrong("it names no host: use etcd://HOST:2379/PREFIX");
    // An address of IPv6 has its colons in brackets.
    let behind = text.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match text[behind..].split_once(':') {
        Some((_, port)) => {
            let port = port.parse().map_err(|_| wrong("a port is not a number below 65536"))?;
            (&text[..text.len() - text[behind..].split_once(':').map_or(0, |(_, port)| port.len() + 1)], port)
        }
        None => (text, PORT),
    };
    let is_odd = |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '?' | '#' | '@' | '%');
    if host.is_empty() || host.contains(is_odd) {
        return Err(no_host());
    }
    Ok(format!("{host}:{port}"))
}

/// A name, and a password from the URL or from where `etcdctl` has it.
fn user(text: &str) -> Result<User, OpenError> {
    let (name, password) = match text.split_once(':') {
        Some((name, password)) => (decoded(name)?, Some(decoded(password)?)),
        None => (decoded(text)?, None),
    };
    if name.is_empty() {
        return Err(wrong("its user has no name"));
    }
    let password = password
        .or_else(|| std::env::var("ETCDCTL_PASSWORD").ok())
        .ok_or_else(|| wrong("its user has no password: give it in the environment's ETCDCTL_PASSWORD"))?;
    Ok(User { name, password })
}

fn parse_options(text: &str) -> Result<EtcdOptions, OpenError> {
    let mut options = EtcdOptions::default();
    for option in text.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("tls", "on")) => options.tls = Some(true),
            Some(("tls", "off")) => options.tls = Some(false),
            Some(("ca", path)) => options.ca = Some(decoded(path)?),
            Some(("cert", path)) => options.cert = Some(decoded(path)?),
            Some(("key", path)) => options.key = Some(decoded(path)?),
            Some(("operations", count)) => {
                let count = count.parse().ok().filter(|count| *count >= MOST_OPERATIONS);
                options.operations = Some(count.ok_or_else(|| {
                    wrong("operations=N is a number from 128 on: the servers' --max-txn-ops")
                })?);
            }
            _ => {
                return Err(wrong(
                    "its options are tls=on, tls=off, ca=PATH, cert=PATH, key=PATH and operations=N",
                ));
            }
        }
    }
    Ok(options)
}

/// With `ca`, certificates are asked for by its authorities, else by the system's.
fn tls(options: &EtcdOptions) -> Result<Option<ClientTlsConfig>, OpenError> {
    let names_files = options.ca.is_some() || options.cert.is_some() || options.key.is_some();
    if !options.tls.unwrap_or(names_files) {
        return if names_files { Err(wrong("tls=off, and certificates are named")) } else { Ok(None) };
    }
    let read = |name: &str, path: &str| {
        std::fs::read(path).map_err(|error| wrong(format!("{name}={path}: {error}")))
    };
    let mut config = ClientTlsConfig::new().timeout(CONNECT);
    if let Some(path) = &options.ca {
        let pem = read("ca", path)?;
        if !contains(&pem, b"-----BEGIN CERTIFICATE-----") {
            return Err(wrong(format!("ca={path}: no certificate is in it")));
        }
        config = config.ca_certificate(Certificate::from_pem(pem));
    } else {
        let found = rustls_native_certs::load_native_certs().certs;
        if found.is_empty() {
            return Err(wrong("the system has no certificates: name some by ca=PATH"));
        }
        config = config.ca_certificates(found.iter().map(|der| Certificate::from_pem(pem(der))));
    }
    match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let (cert, key) = (read("cert", cert)?, read("key", key)?);
            config = config.identity(Identity::from_pem(cert, key));
        }
        (None, None) => {}
        _ => return Err(wrong("cert=PATH and key=PATH come together")),
    }
    Ok(Some(config))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A certificate of the system as text, which is how the client takes it.
fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            for digit in 0..4 {
                let is_there = digit <= three.len();
                let index = (bits >> (18 - 6 * digit) & 63) as usize;
                text.push(if is_there { char::from(DIGITS[index]) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + "-----END CERTIFICATE-----\n"
}

/// Text in which `%20` and the like stand for bytes.
fn decoded(text: &str) -> Result<String, OpenError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(u8::try_from(high << 4 | low).unwrap_or_default()),
            _ => return Err(wrong("a % has no two digits behind it")),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is no text of UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(url: &str) -> String {
        EtcdAddress::parse(url).unwrap().describe()
    }

    fn refusal(url: &str) -> String {
        EtcdAddress::parse(url).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_url_names_members_and_a_prefix() {
        for (url, is) in [
            ("etcd://h", "etcd://h:2379/callsign"),
            ("etcd://h/", "etcd://h:2379/callsign"),
            ("etcd://a:1,b,c:3/shop/one/", "etcd://a:1,b:2379,c:3/shop/one"),
            ("etcd://[::1],[::2]:7/p", "etcd://[::1]:2379,[::2]:7/p"),
            ("etcd://u:s%2Fx@h/a%20b?tls=off", "etcd://u@h:2379/a b"),
        ] {
            assert_eq!(described(url), is, "{url}");
        }
        let space = EtcdAddress::parse("etcd://h/shop/one").unwrap().space;
        assert_eq!(space.key(b"k"), b"shop/one/k");
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_a_password_is_never_repeated() {
        for (url, said) in [
            ("etcd:h", "does not begin with etcd://"),
            ("etcd://", "names no host"),
            ("etcd://a,,b", "names no host"),
            ("etcd://u:secret@/p", "names no host"),
            ("etcd://u:secret@h h/p", "names no host"),
            ("etcd://u:secret@h:x/p", "port"),
            ("etcd://u:secret@h:70000/p", "port"),
            ("etcd://:secret@h/p", "no name"),
            ("etcd://u:secret%2@h/p", "two digits"),
            ("etcd://u:secret%2g@h/p", "two digits"),
            ("etcd://u:secret%ff@h/p", "UTF-8"),
            ("etcd://u:secret@h//p", "prefix begins with /"),
            ("etcd://u:secret@h/p?lease=1", "options are"),
            ("etcd://u:secret@h/p?operations=127", "from 128 on"),
            ("etcd://u:secret@h/p?tls=off&ca=/nowhere", "tls=off"),
            ("etcd://u:secret@h/p?ca=/nowhere/ca.pem", "ca=/nowhere/ca.pem: "),
        ] {
            let refused = refusal(url);
            assert!(refused.contains(said) && !refused.contains("secret"), "{url}: {refused}");
        }
        let shown = format!("{:?}", EtcdAddress::parse("etcd://u:secret@h/p").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_file_without_a_certificate_and_half_an_identity_are_refused() {
        let empty = tempfile::NamedTempFile::new().unwrap();
        let path = empty.path().display();
        assert!(refusal(&format!("etcd://h?ca={path}")).contains("no certificate is in it"));
        std::fs::write(empty.path(), pem(b"any")).unwrap();
        assert!(refusal(&format!("etcd://h?ca={path}&cert={path}")).contains("come together"));
        assert!(refusal(&format!("etcd://h?ca={path}&key={path}")).contains("come together"));
        assert!(EtcdAddress::parse(&format!("etcd://h?ca={path}")).unwrap().is_encrypted());
        assert!(!EtcdAddress::parse("etcd://h").unwrap().is_encrypted());
        for half in ["cert", "key"] {
            assert!(EtcdAddress::parse(&format!("etcd://h?{half}={path}")).is_err(), "never in clear text");
        }
    }

    #[test]
    fn without_authorities_of_its_own_a_url_trusts_those_of_the_system_if_there_are_any() {
        if rustls_native_certs::load_native_certs().certs.is_empty() {
            assert!(refusal("etcd://h?tls=on").contains("the system has no certificates"));
        } else {
            assert!(EtcdAddress::parse("etcd://h?tls=on").unwrap().is_encrypted());
        }
    }

    #[test]
    fn certificates_of_the_system_are_spelled_as_files_have_them() {
        let body = |der: &[u8]| pem(der).lines().nth(1).unwrap().to_owned();
        assert_eq!(body(b"Man"), "TWFu");
        assert_eq!(body(b"Ma"), "TWE=");
        assert_eq!(body(b"M"), "TQ==");
        assert_eq!(pem(&[0xff; 49]).lines().count(), 4);
    }

    /// A process of its own has an environment of its own.
    #[test]
    fn a_password_that_the_url_lacks_is_that_of_the_environment() {
        const INSIDE: &str = "CALLSIGN_TEST_ETCD_PASSWORD";
        if std::env::var_os(INSIDE).is_some() {
            for (url, expected) in [("etcd://u@h", "environment's"), ("etcd://u:said@h", "said")] {
                assert_eq!(EtcdAddress::parse(url).unwrap().user.unwrap().password, expected);
            }
            return;
        }
        assert!(refusal("etcd://u@h").contains("ETCDCTL_PASSWORD"));
        let name = "driver::etcd::address::tests::a_password_that_the_url_lacks_is_that_of_the_environment";
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("ETCDCTL_PASSWORD", "environment's")
            .env(INSIDE, "")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn an_address_may_end_in_colons() {
        assert_eq!(described("etcd://[fe80::]/p"), "etcd://[fe80::]:2379/p");
        assert_eq!(described("etcd://[fe80::]:1,a/p"), "etcd://[fe80::]:1,a:2379/p");
    }

    #[test]
    fn as_many_operations_as_servers_take_by_default_may_be_asked_for_and_two_are_the_stores_own() {
        let checks = |url: &str| EtcdAddress::parse(url).unwrap().limits().checks;
        assert_eq!(checks("etcd://h/p"), Some(126));
        assert_eq!(checks("etcd://h/p?operations=128"), Some(126));
        assert_eq!(checks("etcd://h/p?operations=129"), Some(127));
    }
}
