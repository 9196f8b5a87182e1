use super::*;
use crate::driver::net::{memory::MemoryNetwork, network::Network};

async fn start(node: &str, network: &MemoryNetwork) -> Endpoint {
    let mut config = EndpointConfig::new("prod", node, 1, "127.0.0.1:0".parse().unwrap());
    config.network = Network::Memory(network.clone());
    Endpoint::start(config).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_the_handshakes_that_are_over() {
    let network = MemoryNetwork::new();
    let (a, b) = (start("a", &network).await, start("b", &network).await);
    b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
    for _ in 0..3 {
        while b.link_to("a").is_none() || a.link_to("b").is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(read(&a.inner.state).pending.is_empty(), "a handshake that ended well");
        a.forget("b");
    }
}
