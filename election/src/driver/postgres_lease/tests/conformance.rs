//! The suite of all fenced oracles. A clock of a database cannot be moved; its leases can.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_postgres::NoTls;

use super::*;
use crate::{
    driver::conformance::{Authority, Player, Promise, Withheld},
    election_rows,
};

/// A database of its own, on a server that all tests that run at one time share.
struct Database {
    server: Arc<Server>,
    name: String,
}

async fn database() -> Option<Database> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let server = {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            server
        } else {
            let server = Arc::new(Server::start()?);
            *shared = Arc::downgrade(&server);
            server
        }
    };
    let name = format!("d{:016x}", rand::random::<u64>());
    sql(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    Some(Database { server, name })
}

impl Database {
    async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(&self.server.url(&self.name), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Authority for Database {
    type Oracle = PostgresLease;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<PostgresLease> {
        let lease = short(Duration::from_secs(60));
        let oracle = PostgresLease::new(&self.server.url(&self.name), lease).unwrap();
        Player::new(oracle, election, member)
    }

    async fn pass(&self, time: Duration) {
        let millis = time.as_millis();
        let earlier = format!(
            "UPDATE callsign.lease_v1 SET expires_at = expires_at - interval '{millis} milliseconds'"
        );
        self.client().await.batch_execute(&earlier).await.unwrap();
    }

    async fn stored(&self, election: &ElectionName) -> Option<Vec<u8>> {
        // Without the expiry: that is what `pass` moves.
        let row = "SELECT (ballot, epoch, leader, incarnation, nonce, elected_at)::text
            FROM callsign.lease_v1 WHERE election = $1";
        let row = self.client().await.query_opt(row, &[&election.as_str()]).await.unwrap()?;
        Some(row.get::<_, String>(0).into_bytes())
    }

    fn withholds(&self) -> Vec<Withheld> {
        let because = "each question to a server that is gone takes seconds, of the real clock; see `faults`";
        vec![Withheld { promise: Promise::CutsOff, because }]
    }
}

election_rows!({ database().await });
