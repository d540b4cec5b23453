//! Tries `wasi:sockets` (by `std::net`): to connect to `address`, to listen, to send a datagram to it, to resolve `localhost`; and
//! reports what came of each.
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

fn seen<T>(what: &str, result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => format!("{what}: reached"),
        Err(error) => format!("{what}: {:?}", error.kind()),
    }
}

guests::on_send!(config, _call, batch => {
    let all = [
        seen("connect", TcpStream::connect(&config.address)),
        seen("listen", TcpListener::bind("127.0.0.1:0")),
        seen("send", UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"x", &config.address))),
        seen("resolve", "localhost:80".to_socket_addrs()),
    ];
    Ok(guests::reports(&batch, &all.join(", ")))
});
