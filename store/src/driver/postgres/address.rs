//! Where the database is, and how it is spoken to: the URL.

use std::{fmt::Write, time::Duration};

use tokio_postgres::config::{Config, SslMode, TargetSessionAttrs};

use super::{
    host::{Host, hosts_of},
    timeline::Known,
    tls::Tls,
};
use crate::error::OpenError;

/// How long one attempt to reach a host may take, unless the URL says otherwise.
const CONNECT: Duration = Duration::from_secs(3);
/// How long what was sent may stay unacknowledged by the other machine, and how long nothing may be heard of it, before
/// the connection counts as broken. Longer than a hiccup of a network, shorter than a lease.
const UNHEARD: Duration = Duration::from_secs(5);

/// What a URL says.
pub struct Address {
    pub(super) config: Config,
    pub(super) tls: Tls,
    /// Each host that it names, in its order.
    pub(super) hosts: Vec<Host>,
    /// Which primaries were seen there.
    pub(super) known: Known,
}

/// The options that are ours, not the client's.
#[derive(Default)]
struct Options<'a> {
    sslmode: Option<&'a str>,
    sslrootcert: Option<&'a str>,
}

impl Address {
    /// Reads a URL. What makes no sense in it is an error; nothing is connected.
    pub fn parse(url: &str) -> Result<Self, OpenError> {
        // Never the URL itself: it may hold a password.
        let wrong = |cause: &dyn std::fmt::Display| OpenError::WrongPostgresUrl { cause: cause.to_string() };
        let text = match url.strip_prefix("postgres:") {
            Some(rest) if !rest.starts_with("//") => rest,
            _ => url,
        };
        let (rest, options) = take_options(text);
        let mut config: Config =
            rest.parse().map_err(|error: tokio_postgres::Error| wrong(&super::trouble::in_words(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(wrong(&"it names no host: use postgres://user@host/database"));
        }
        let mut must_verify = false;
        config.ssl_mode(match options.sslmode {
            None | Some("prefer") => SslMode::Prefer,
            Some("disable") => SslMode::Disable,
            Some("require") => SslMode::Require,
            Some("verify-full") => {
                must_verify = true;
                SslMode::Require
            }
            Some(_) => return Err(wrong(&"sslmode is disable, prefer, require or verify-full")),
        });
        let tls = Tls::new(options.sslrootcert, must_verify).map_err(|error| wrong(&error))?;
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("callsign");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNHEARD);
        }
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(UNHEARD);
            config.keepalives_interval(UNHEARD / 5).keepalives_retries(5);
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let hosts = hosts_of(&config).ok_or_else(|| wrong(&"its hosts and its ports are not as many"))?;
        Ok(Self { config, tls, hosts, known: Known::default() })
    }

    /// Whether it names several hosts: then another one may be the primary with the next connection.
    pub fn has_several_hosts(&self) -> bool {
        self.hosts.len() > 1
    }

    /// The URL for people: without the password, and without what does not matter to them.
    pub fn describe(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut url = "postgres://".to_owned();
        if let Some(user) = self.config.get_user() {
            // Writing to a string does not fail.
            let _ = write!(url, "{user}@");
        }
        url += &hosts.join(",");
        if let Some(database) = self.config.get_dbname() {
            let _ = write!(url, "/{database}");
        }
        url
    }
}

/// Takes the options out that are ours: of `...?a=b&c=d` or of `a=b c=d`.
fn take_options(text: &str) -> (String, Options<'_>) {
    let mut options = Options::default();
    let is_ours = |piece: &&str| piece.starts_with("sslmode=") || piece.starts_with("sslrootcert=");
    let (head, tail, between) = match text.split_once('?') {
        Some((head, tail)) if text.contains("://") => (head, tail, '&'),
        None if text.contains("://") => return (text.to_owned(), options),
        _ => ("", text, ' '),
    };
    let (mine, theirs): (Vec<_>, Vec<_>) = tail.split(between).partition(is_ours);
    for (name, value) in mine.iter().filter_map(|piece| piece.split_once('=')) {
        match name {
            "sslmode" => options.sslmode = Some(value),
            _ => options.sslrootcert = Some(value),
        }
    }
    let theirs = theirs.join(&between.to_string());
    let asks = if between == '&' && !theirs.is_empty() { "?" } else { "" };
    (format!("{head}{asks}{theirs}"), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(url: &str) -> String {
        Address::parse(url).unwrap().describe()
    }

    #[test]
    fn a_url_may_have_any_of_the_usual_forms() {
        for (url, is) in [
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgresql://u@h:5433/d?connect_timeout=3", "postgres://u@h:5433/d"),
            ("postgres:postgres://u@h/d", "postgres://u@h/d"),
            ("postgres:host=/run/postgresql user=u dbname=d", "postgres://u@/run/postgresql/d"),
            ("postgres://u@h,i:1/d?sslmode=require&options=-c%20a%3Db", "postgres://u@h,i:1/d"),
            ("postgres://u@%2Frun%2Fp/d?sslmode=disable", "postgres://u@/run/p/d"),
            ("postgres:user=u host=h sslmode=prefer password='a  b'", "postgres://u@h"),
            ("postgres:hostaddr=127.0.0.1 user=u", "postgres://u@127.0.0.1"),
            ("postgres:hostaddr=127.0.0.1 host=h user=u port=5433", "postgres://u@h:5433"),
        ] {
            assert_eq!(described(url), is, "{url}");
            assert_eq!(Address::parse(url).unwrap().has_several_hosts(), is.contains(','), "{url}");
        }
    }

    #[test]
    fn a_password_reaches_the_server_and_nobody_else() {
        for url in ["postgres://u:se%20cret@h/d", "postgres:user=u password='se cret' host=h dbname=d"] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.config.get_password(), Some(b"se cret".as_slice()));
            assert_eq!(address.describe(), "postgres://u@h/d");
        }
        for url in
            ["postgres://u:secret@h/d?nonsense=1", "postgres:user=u password=secret", "postgres:secret"]
        {
            let refused = Address::parse(url).map(|_| ()).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
        let odd =
            Address::parse("postgres:user=u host=h password=a?b&sslmode=disable sslmode=require").unwrap();
        assert_eq!(odd.config.get_password(), Some(b"a?b&sslmode=disable".as_slice()));
    }

    /// A process of its own has an environment of its own.
    #[test]
    fn a_password_that_the_url_lacks_is_that_of_the_environment() {
        const INSIDE: &str = "CALLSIGN_TEST_PASSWORD";
        if std::env::var_os(INSIDE).is_some() {
            for (url, expected) in [("postgres://u@h/d", "environment's"), ("postgres://u:said@h/d", "said")]
            {
                let address = Address::parse(url).unwrap();
                assert_eq!(address.config.get_password(), Some(expected.as_bytes()));
            }
            return;
        }
        let name =
            "driver::postgres::address::tests::a_password_that_the_url_lacks_is_that_of_the_environment";
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env("PGPASSWORD", "environment's")
            .env(INSIDE, "")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn an_application_may_have_its_own_name() {
        let name =
            |url: &str| Address::parse(url).unwrap().config.get_application_name().map(ToOwned::to_owned);
        assert_eq!(name("postgres://u@h/d").as_deref(), Some("callsign"));
        assert_eq!(name("postgres://u@h/d?application_name=own").as_deref(), Some("own"));
    }

    #[test]
    fn what_is_wrong_with_the_encryption_that_is_asked_for_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        for (options, said) in [
            ("sslmode=verify-ca".to_owned(), "sslmode is disable, prefer, require or verify-full".to_owned()),
            ("sslrootcert=/nowhere/ca.pem".to_owned(), "sslrootcert=/nowhere/ca.pem: ".to_owned()),
            (format!("sslrootcert={path}"), format!("sslrootcert={path}: no certificate is in it")),
        ] {
            let refused = Address::parse(&format!("postgres://h/d?{options}")).map(drop).unwrap_err();
            assert!(refused.to_string().contains(&said), "{refused}");
        }
    }

    #[test]
    fn standbys_are_left_alone_whatever_the_url_says() {
        let address = Address::parse("postgres://u@h/d?target_session_attrs=any").unwrap();
        assert_eq!(address.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn a_server_that_is_silent_is_given_up_soon_unless_the_url_says_when() {
        let times = |url: &str| {
            let config = Address::parse(url).unwrap().config;
            let idle = (config.get_keepalives_idle(), config.get_keepalives_interval());
            (
                config.get_connect_timeout().copied(),
                config.get_tcp_user_timeout().copied(),
                idle,
                config.get_keepalives_retries(),
            )
        };
        let said = "?connect_timeout=7&tcp_user_timeout=8&keepalives_idle=9&keepalives_interval=10&keepalives_retries=11";
        let seconds = Duration::from_secs;
        assert_eq!(
            times("postgres://u@h/d"),
            (Some(CONNECT), Some(UNHEARD), (UNHEARD, Some(UNHEARD / 5)), Some(5))
        );
        assert_eq!(
            times(&format!("postgres://u@h/d{said}")),
            (Some(seconds(7)), Some(seconds(8)), (seconds(9), Some(seconds(10))), Some(11))
        );
    }

    #[test]
    fn encryption_is_as_strict_as_asked_for_and_no_mode_is_guessed() {
        let mode = |options: &str| {
            Address::parse(&format!("postgres://h/d{options}")).map(|a| a.config.get_ssl_mode())
        };
        assert_eq!(mode("").unwrap(), SslMode::Prefer);
        assert_eq!(mode("?sslmode=disable").unwrap(), SslMode::Disable);
        assert_eq!(mode("?sslmode=require").unwrap(), SslMode::Require);
        let in_words = Address::parse("postgres:user=u host=h sslmode=disable").unwrap();
        assert_eq!(in_words.config.get_ssl_mode(), SslMode::Disable);
        for refused in ["?sslmode=verify-ca", "?sslmode=", "?sslmode=verify-full&sslrootcert=/nowhere/ca.pem"]
        {
            assert!(mode(refused).is_err(), "{refused}");
        }
    }
}
