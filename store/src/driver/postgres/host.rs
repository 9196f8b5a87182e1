//! Each host that a URL names, and what is known of it.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::config::{Config, Host as Named};

use super::timeline::{Known, News, Origin, Timeline};

/// One of the hosts of a URL.
pub(super) struct Host {
    /// For people.
    pub(super) name: String,
    /// The same, but for the other hosts.
    pub(super) config: Config,
    /// The timeline with which it took writes when it was reached last; 0 if it never did.
    took_writes: AtomicU32,
    /// With which timeline it was said to be an old primary; 0 if it never was.
    told: AtomicU32,
}

impl Host {
    /// Whether it was the primary before that timeline began, when it was reached last: most likely it is none again yet.
    pub(super) fn is_known_to_be_before(&self, timeline: Timeline) -> bool {
        (1..timeline.0).contains(&self.took_writes.load(Ordering::Relaxed))
    }

    /// Notes that it takes writes, and says so if it is an old primary, or the new one.
    pub(super) fn note(&self, origin: &Origin, known: &Known) {
        let (host, timeline) = (&self.name, origin.timeline);
        self.took_writes.store(timeline.0, Ordering::Relaxed);
        if known.saw(origin) == Some(News::Promoted) {
            crate::logged!(warn, %host, %timeline, "another server was promoted: this is the primary");
        }
        if let Some(newest) = known.newer_than(origin)
            && self.told.swap(timeline.0, Ordering::Relaxed) != timeline.0
        {
            crate::logged!(
                warn,
                "{host} is an old primary: its timeline is {timeline}, and {newest} has been seen. It is not used"
            );
        }
    }
}

/// The hosts of a URL, each with all that is said for all of them. `None`: there are not as many hosts as addresses or ports.
pub(super) fn hosts_of(all: &Config) -> Option<Vec<Host>> {
    let (named, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = named.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    if !(fits(named.len()) && fits(addresses.len()) && (fits(ports.len()) || ports.len() == 1)) {
        return None;
    }
    let host = |nth: usize| {
        let mut config = but_for_hosts(all);
        if let Some(address) = addresses.get(nth) {
            config.hostaddr(*address);
        }
        let name = match named.get(nth) {
            Some(Named::Tcp(name)) => {
                config.host(name);
                name.clone()
            }
            Some(Named::Unix(path)) => {
                config.host_path(path);
                path.display().to_string()
            }
            None => addresses.get(nth)?.to_string(),
        };
        let port = ports.get(nth).or(ports.first()).copied().unwrap_or(5432);
        config.port(port);
        let name = if port == 5432 { name } else { format!("{name}:{port}") };
        Some(Host { name, config, took_writes: AtomicU32::new(0), told: AtomicU32::new(0) })
    };
    (0..count).map(host).collect()
}

/// The same, without a host. The client has no way to take one away.
fn but_for_hosts(all: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    if let Some(name) = all.get_application_name() {
        config.application_name(name);
    }
    if let Some(time) = all.get_connect_timeout() {
        config.connect_timeout(*time);
    }
    if let Some(time) = all.get_tcp_user_timeout() {
        config.tcp_user_timeout(*time);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        config.keepalives_retries(retries);
    }
    config
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding())
        .load_balance_hosts(all.get_load_balance_hosts());
    config
}

#[cfg(test)]
mod tests {
    use super::{super::address::Address, *};
    use crate::testing::log::Listening;

    #[test]
    fn each_host_is_reached_with_all_that_is_said_for_all_of_them() {
        let options = "connect_timeout=7&tcp_user_timeout=8&keepalives_idle=9&keepalives_interval=10&keepalives_retries=11\
            &application_name=own&options=-c%20a%3Db&channel_binding=disable&load_balance_hosts=random&sslmode=require";
        let all = |hosts: &str| Address::parse(&format!("postgres://u:p@{hosts}/d?{options}")).unwrap();
        let several = all("h,%2Frun%2Fp:5433,i:5434");
        assert_eq!(several.hosts.len(), 3);
        for (host, alone) in several.hosts.iter().zip(["h", "%2Frun%2Fp:5433", "i:5434"]) {
            assert_eq!(host.config, all(alone).hosts[0].config);
            assert_eq!(host.config.get_password(), Some(b"p".as_slice()));
        }
        let names: Vec<_> = several.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["h", "/run/p:5433", "i:5434"]);
        let one = all("h").config;
        let mut again = but_for_hosts(&one);
        assert_ne!(again, one, "it has no host");
        again.host("h").port(5432);
        assert_eq!(again, one, "nothing is left out");
        for mismatched in
            ["postgres:host=h,i port=1,2,3 user=u", "postgres:host=h,i hostaddr=127.0.0.1 user=u"]
        {
            let refused = Address::parse(mismatched).map(drop).unwrap_err().to_string();
            assert!(refused.contains("not as many"), "{refused}");
        }
    }

    #[test]
    fn only_a_host_that_took_writes_before_is_known_to_be_an_old_primary() {
        let address = Address::parse("postgres://u@h,i/d").unwrap();
        let host = &address.hosts[0];
        let origin = |timeline: &str| Origin::read(timeline, "1", "f").unwrap();
        assert!(!host.is_known_to_be_before(Timeline(9)), "it may be a standby that was promoted since");
        host.note(&origin("00000002"), &address.known);
        assert!(host.is_known_to_be_before(Timeline(3)));
        assert!(!host.is_known_to_be_before(Timeline(2)) && !host.is_known_to_be_before(Timeline(1)));
    }

    #[test]
    fn a_promotion_and_an_old_primary_are_each_said_once() {
        let log = Listening::to("callsign_store::driver::postgres::host");
        let address = Address::parse("postgres://u@h,i/d").unwrap();
        let note = |nth: usize, timeline: &str| {
            let origin = Origin::read(timeline, "1", "f").unwrap();
            address.hosts[nth].note(&origin, &address.known);
        };
        for (nth, timeline) in
            [(0, "00000001"), (1, "00000002"), (0, "00000001"), (0, "00000001"), (1, "00000002")]
        {
            note(nth, timeline);
        }
        let said: Vec<_> = log.all().iter().map(|line| line["message"].clone()).collect();
        let [promoted, old] = said.as_slice() else { panic!("{said:?}") };
        assert!(promoted.contains("another server was promoted"), "{promoted}");
        assert!(old.contains("h is an old primary: its timeline is 1, and 2 has been seen"), "{old}");
        assert!(address.hosts[0].is_known_to_be_before(Timeline(2)), "also if it was the first of all");
    }
}
