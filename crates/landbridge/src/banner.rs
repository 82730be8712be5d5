//! What a person sees at start: where to point a client, what to paste, what is behind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use lb_exchange::{ServerSpec, Target};

/// The banner, for stderr.
pub fn banner(address: SocketAddr, servers: &[ServerSpec]) -> String {
    let mut text = format!("landbridge {}\nlistening on http://{address}\n", env!("CARGO_PKG_VERSION"));
    if address.ip().is_unspecified() {
        text += "other names and addresses of this machine need --allow-host NAME\n";
    }
    // Nobody can connect to "any address"; the machine itself always can to its own.
    let shown = match address.ip() {
        any if !any.is_unspecified() => address,
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
    };
    let paths: Vec<(String, String)> = match servers {
        [only] => vec![(only.name.to_string(), format!("http://{shown}/mcp"))],
        many => many.iter().map(|s| (s.name.to_string(), format!("http://{shown}/mcp/server/{}", s.name))).collect(),
    };
    text += "\nPoint a client at\n";
    for (_, url) in &paths {
        text += &format!("  {url}\n");
    }
    text += "\nor paste into its config\n  { \"mcpServers\": {\n";
    let snippets: Vec<_> = paths
        .iter()
        .map(|(name, url)| format!("      \"{name}\": {{ \"type\": \"http\", \"url\": \"{url}\" }}"))
        .collect();
    text += &snippets.join(",\n");
    text += "\n  } }\n\nBehind it\n";
    for server in servers {
        text += &format!("  {:<12} {}\n", server.name.to_string(), describe(server));
    }
    text += "\nStop with Ctrl-C.\n";
    text
}

fn describe(server: &ServerSpec) -> String {
    match &server.target {
        Target::Embedded(_) => {
            "built in: notes, echo, a slow tool, one that asks you, one that asks your model".to_owned()
        }
        target => target.address(),
    }
}
